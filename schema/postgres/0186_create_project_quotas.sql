-- How many events a project may send; a row for each project with a quota. Read by ingest together with the keys.
CREATE TABLE project_quotas (
  project_id integer PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
  -- Of each ingest process; burst: how many may come at once after a silence.
  events_per_second integer CHECK (events_per_second BETWEEN 1 AND 10000000),
  burst integer CHECK (burst BETWEEN 1 AND 1000000000),
  -- Of all processes, in a calendar month of receipt, UTC.
  events_per_month bigint CHECK (events_per_month BETWEEN 1 AND 1000000000000000),
  beyond text NOT NULL DEFAULT 'reject' CHECK (beyond IN ('reject', 'sample')),
  -- Share of all distinct ids whose events are stored beyond the quota.
  sample_rate double precision NOT NULL DEFAULT 0.1 CHECK (sample_rate >= 0.0001 AND sample_rate < 1),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((events_per_second IS NULL) = (burst IS NULL)),
  CHECK (events_per_second IS NOT NULL OR events_per_month IS NOT NULL)
);

CREATE TRIGGER notify_project_quota_changed AFTER INSERT OR UPDATE OR DELETE ON project_quotas
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();

-- What the pipeline has measured of the running month, by the books in ClickHouse, for ingest, which cannot read them.
-- Written every 15 seconds for projects with a quota of the month. No notification: ingest reads it as often.
CREATE TABLE project_usage (
  project_id integer PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
  -- First day, UTC.
  month date NOT NULL,
  events bigint NOT NULL,
  -- All events received before are in it.
  counted_through timestamptz NOT NULL
);
