-- Rows whose project is gone are passed over; rows that would not change are not written.
INSERT INTO event_definitions AS known
  (project_id, name, volume_30_day, created_at, last_seen_at, last_calculated_at)
SELECT
  found.project_id, found.name, found.volume_30_day,
  least(now(), to_timestamp(found.first_seen_ms / 1000.0)), to_timestamp(found.last_seen_ms / 1000.0), now()
FROM jsonb_to_recordset($1::text::jsonb) AS found
  (project_id integer, name text, volume_30_day bigint, first_seen_ms bigint, last_seen_ms bigint)
JOIN projects ON projects.id = found.project_id
ON CONFLICT (project_id, name) DO UPDATE SET
  volume_30_day = excluded.volume_30_day,
  last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at),
  last_calculated_at = excluded.last_calculated_at
WHERE known.volume_30_day <> excluded.volume_30_day
  OR known.last_seen_at IS NULL OR known.last_seen_at < excluded.last_seen_at
