-- Event names a project has seen; volumes and last_seen_at are rolled up from ClickHouse every few seconds.
-- Hundreds to ten thousands of rows a project.
CREATE TABLE event_definitions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- At most 200 characters, as ingest cuts them.
  name text NOT NULL,
  volume_30_day bigint NOT NULL DEFAULT 0,
  query_usage_30_day bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz,
  last_updated_at timestamptz NOT NULL DEFAULT now(),
  tags text[] NOT NULL DEFAULT '{}',
  -- When the roll-up last computed volume_30_day.
  last_calculated_at timestamptz,
  created_by integer REFERENCES users ON DELETE SET NULL,
  post_to_slack boolean NOT NULL DEFAULT false,
  UNIQUE (project_id, name)
);
