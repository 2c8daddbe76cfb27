-- $1: what read-changed-event-properties.sql found, as JSON. $2: now by ClickHouse's clock, in epoch milliseconds.
-- Skips rows whose project is deleted. A pair that was seen again is written once a minute at most: there are many
-- pairs, and it is their existence that matters. Deleting a definition leaves its pairs, which the stored events still
-- have.
INSERT INTO event_properties AS known (project_id, event, property, last_seen_at)
SELECT found.project_id, found.event_name, found.property, to_timestamp(found.last_seen_ms / 1000.0)
FROM jsonb_to_recordset($1::text::jsonb) AS found
  (project_id integer, event_name text, property text, last_seen_ms bigint)
JOIN projects ON projects.id = found.project_id
-- Always in the same order, which prevents deadlocks.
ORDER BY found.project_id, found.event_name COLLATE "C", found.property COLLATE "C"
ON CONFLICT (project_id, event, property) DO UPDATE SET last_seen_at = excluded.last_seen_at
WHERE known.last_seen_at IS NULL OR known.last_seen_at < excluded.last_seen_at - interval '1 minute'
  OR known.last_seen_at > to_timestamp($2::bigint / 1000.0) + interval '1 minute'
