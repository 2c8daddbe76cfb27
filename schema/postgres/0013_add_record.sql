-- Who changed what, who logged in or was refused, and who read persons or ran SQL. Grows with use; kept for
-- MILLRACE_RECORD_DAYS. Triggers write changes, so each is in the transaction of its change, whoever makes it.
CREATE TABLE record (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- No references: a line outlives what it is about. NULL: of the installation.
  project_id integer,
  -- NULL: a command in Postgres, or nobody who is known.
  user_id integer,
  -- NULL: a session of the console without a key.
  key_id uuid,
  address text,
  kind text NOT NULL CHECK (kind IN ('create', 'change', 'delete', 'act', 'read', 'login', 'logout', 'refusal', 'trim')),
  -- The table, or what was read: persons, sql.
  object text NOT NULL,
  object_id text NOT NULL DEFAULT '',
  before jsonb,
  after jsonb,
  -- Of a reading: what was asked.
  detail jsonb,
  -- Of a reading: how many rows were read; NULL until it has ended.
  rows bigint
);

CREATE INDEX record_at ON record (at);
CREATE INDEX record_object ON record (object, object_id, id);

-- The API says in the setting millrace.actor who acts. Secrets, and what follows from events or use, are left out.
CREATE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  left_out CONSTANT text[] := '{secure_value,password_hash,token_hash,key_hash,last_used_at,last_login_at,volume_30_day,
    query_usage_30_day,counted_events,last_seen_at,last_arrived_at,last_calculated_at,volume_written_at,last_seen_written_at,
    query_usage_written_at}';
  actor jsonb := nullif(current_setting('millrace.actor', true), '')::jsonb;
  was jsonb;
  becomes jsonb;
  shown jsonb;
BEGIN
  IF TG_OP <> 'INSERT' THEN was := to_jsonb(OLD) - left_out; END IF;
  IF TG_OP <> 'DELETE' THEN becomes := to_jsonb(NEW) - left_out; END IF;
  IF was IS NOT DISTINCT FROM becomes THEN RETURN NULL; END IF;
  shown := coalesce(becomes, was);
  INSERT INTO record (project_id, user_id, key_id, address, kind, object, object_id, before, after) VALUES (
    coalesce(CASE TG_TABLE_NAME WHEN 'projects' THEN shown->>'id' ELSE shown->>'project_id' END, actor->>'project_id')::integer,
    (actor->>'user_id')::integer,
    (SELECT id FROM personal_api_keys WHERE secure_value = actor->>'key_hash'),
    actor->>'address',
    CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'change' ELSE 'delete' END,
    TG_TABLE_NAME,
    (SELECT string_agg(coalesce(shown->>name, ''), ':' ORDER BY position) FROM unnest(TG_ARGV) WITH ORDINALITY AS part (name, position)),
    was, becomes);
  RETURN NULL;
END
$$;

DO $$
DECLARE
  recorded text[];
BEGIN
  FOREACH recorded SLICE 1 IN ARRAY ARRAY[
    ['projects', 'id', ''], ['project_api_keys', 'api_key', ''], ['project_quotas', 'project_id', ''], ['retention', 'what', 'project_id'],
    ['users', 'id', ''], ['memberships', 'id', ''], ['invitations', 'user_id', ''], ['personal_api_keys', 'id', ''],
    ['feature_flags', 'id', ''], ['cohorts', 'id', ''], ['experiments', 'id', ''], ['experiment_versions', 'experiment_id', 'version'],
    ['event_schemas', 'id', ''], ['event_schema_versions', 'id', ''], ['event_rules', 'id', ''], ['event_rule_versions', 'id', ''],
    ['saved_queries', 'id', ''], ['questions', 'id', ''], ['boards', 'id', ''], ['board_links', 'id', '']
  ] LOOP
    EXECUTE format('CREATE TRIGGER record_change AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION record_change(%s)',
      recorded[1], CASE recorded[3] WHEN '' THEN quote_literal(recorded[2]) ELSE quote_literal(recorded[2]) || ', ' || quote_literal(recorded[3]) END);
  END LOOP;
END
$$;

-- The pipeline writes these as well, for every event: only what somebody does counts, and the rest costs a comparison.
CREATE TRIGGER record_change AFTER INSERT OR UPDATE OR DELETE ON event_definitions FOR EACH ROW
  WHEN (current_setting('millrace.actor', true) <> '') EXECUTE FUNCTION record_change('id');
CREATE TRIGGER record_change AFTER INSERT OR UPDATE OR DELETE ON property_definitions FOR EACH ROW
  WHEN (current_setting('millrace.actor', true) <> '') EXECUTE FUNCTION record_change('id');
CREATE TRIGGER record_change AFTER INSERT ON person_deletions FOR EACH ROW EXECUTE FUNCTION record_change('id');
CREATE TRIGGER record_change AFTER INSERT OR DELETE OR UPDATE OF stop_requested_at ON imports FOR EACH ROW
  EXECUTE FUNCTION record_change('id');

-- A line never changes, but for the rows of a reading that has ended.
CREATE FUNCTION keep_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.rows IS NULL AND to_jsonb(NEW) - 'rows' = to_jsonb(OLD) - 'rows' THEN RETURN NEW; END IF;
  RAISE EXCEPTION 'lines of the record do not change';
END
$$;

CREATE TRIGGER keep_record BEFORE UPDATE ON record FOR EACH ROW EXECUTE FUNCTION keep_record();
CREATE TRIGGER keep_whole_record BEFORE TRUNCATE ON record FOR EACH STATEMENT EXECUTE FUNCTION keep_record();

-- Whoever deletes lines leaves one that says which.
CREATE FUNCTION record_trim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO record (user_id, address, kind, object, detail, rows)
  SELECT (actor->>'user_id')::integer, actor->>'address', 'trim', 'record',
    jsonb_build_object('first', min(gone.at), 'last', max(gone.at), 'first_id', min(gone.id), 'last_id', max(gone.id)), count(*)
  FROM gone, (SELECT nullif(current_setting('millrace.actor', true), '')::jsonb AS actor) AS who
  GROUP BY actor;
  RETURN NULL;
END
$$;

CREATE TRIGGER record_trim AFTER DELETE ON record REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION record_trim();
