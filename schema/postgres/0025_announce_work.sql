-- Announces what the pipeline does for others, which it would otherwise look for every second: at most a few rows a
-- second, as all announcements share a lock.
CREATE FUNCTION announce_work() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('millrace_work', '');
  RETURN NULL;
END
$$;

DO $$
DECLARE
  change text;
BEGIN
  FOREACH change IN ARRAY ARRAY[
    'INSERT ON person_deletions', 'INSERT ON person_repairs', 'INSERT ON notifications', 'INSERT ON backups',
    'INSERT ON export_windows', 'INSERT ON export_erasures', 'INSERT OR UPDATE ON exports',
    'INSERT OR UPDATE ON alerts', 'INSERT OR UPDATE ON cohorts',
    -- A delivery updates its target, and the roll-up its definition.
    'INSERT OR UPDATE OF enabled, events ON targets', 'UPDATE OF post_to_slack ON event_definitions'
  ] LOOP
    EXECUTE format('CREATE TRIGGER announce_work AFTER %s FOR EACH STATEMENT EXECUTE FUNCTION announce_work()', change);
  END LOOP;
END $$;
