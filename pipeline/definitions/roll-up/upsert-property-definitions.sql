-- Rows whose project is gone are passed over; rows that would not change are not written. A type that a person chose
-- stays.
INSERT INTO property_definitions AS known
  (project_id, type, group_type, name, property_type, created_at, last_seen_at)
SELECT
  found.project_id, found.kind, found.group_type, found.name, nullif(found.property_type, ''),
  least(now(), to_timestamp(found.first_seen_ms / 1000.0)), to_timestamp(found.last_seen_ms / 1000.0)
FROM jsonb_to_recordset($1::text::jsonb) AS found (
  project_id integer, kind text, group_type text, name text, property_type text,
  first_seen_ms bigint, last_seen_ms bigint
)
JOIN projects ON projects.id = found.project_id
ON CONFLICT (project_id, type, group_type, name) DO UPDATE SET
  property_type = CASE
    WHEN known.property_type_is_manual THEN known.property_type
    ELSE coalesce(excluded.property_type, known.property_type)
  END,
  last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
WHERE known.last_seen_at IS NULL OR known.last_seen_at < excluded.last_seen_at
  OR (NOT known.property_type_is_manual AND excluded.property_type IS DISTINCT FROM known.property_type)
