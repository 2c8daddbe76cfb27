-- Every ingest and API process caches keys; it is told when one changes.
CREATE FUNCTION notify_keys_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('millrace_keys', '');
  RETURN NULL;
END
$$;

CREATE TRIGGER notify_keys_changed AFTER INSERT OR UPDATE OR DELETE ON project_api_keys
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();

CREATE TRIGGER notify_keys_changed AFTER INSERT OR DELETE ON personal_api_keys
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();

-- last_used_at is written now and then and invalidates nothing.
CREATE TRIGGER notify_key_updated AFTER UPDATE OF secure_value, scopes, project_ids, expires_at, revoked_at
  ON personal_api_keys FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();

CREATE TRIGGER notify_project_changed AFTER INSERT OR UPDATE OR DELETE ON projects
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();
