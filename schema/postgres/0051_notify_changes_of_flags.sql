-- Every API process holds the definitions of flags in memory. It is told when something changes, and finds out by the
-- revision which projects to read again. One row a project that ever had a flag; written on edits only.
CREATE TABLE flag_revisions (
  project_id integer PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
  revision bigint NOT NULL DEFAULT 1
);

CREATE FUNCTION raise_flag_revision (changed_project integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- The row of a project that is being deleted cannot be written, and is gone in a moment.
  INSERT INTO flag_revisions (project_id) SELECT id FROM projects WHERE id = changed_project
    ON CONFLICT (project_id) DO UPDATE SET revision = flag_revisions.revision + 1;
  PERFORM pg_notify('millrace_flags', '');
END
$$;

CREATE FUNCTION notify_flags_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM raise_flag_revision(CASE TG_OP WHEN 'DELETE' THEN OLD.project_id ELSE NEW.project_id END);
  RETURN NULL;
END
$$;

CREATE TRIGGER notify_flags_changed AFTER INSERT OR UPDATE OR DELETE ON feature_flags
  FOR EACH ROW EXECUTE FUNCTION notify_flags_changed();

CREATE TRIGGER notify_flags_changed AFTER INSERT OR UPDATE OR DELETE ON cohorts
  FOR EACH ROW EXECUTE FUNCTION notify_flags_changed();

CREATE TRIGGER notify_flags_changed AFTER INSERT OR UPDATE OR DELETE ON group_types
  FOR EACH ROW EXECUTE FUNCTION notify_flags_changed();

-- Answers say whether an experiment runs on a flag.
CREATE TRIGGER notify_flags_changed AFTER INSERT OR DELETE OR UPDATE OF feature_flag_id, deleted ON experiments
  FOR EACH ROW EXECUTE FUNCTION notify_flags_changed();

-- Dates without an offset are read in the time zone of the project.
CREATE FUNCTION notify_time_zone_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM raise_flag_revision(NEW.id);
  RETURN NULL;
END
$$;

CREATE TRIGGER notify_time_zone_changed AFTER UPDATE OF timezone ON projects
  FOR EACH ROW EXECUTE FUNCTION notify_time_zone_changed();
