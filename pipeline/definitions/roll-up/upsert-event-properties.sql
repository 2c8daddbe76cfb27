-- Rows whose project is gone are passed over. That a pair was seen again is written once a minute at most: there are many
-- pairs, and what matters is that there is one.
INSERT INTO event_properties AS known (project_id, event, property, last_seen_at)
SELECT found.project_id, found.event, found.property, to_timestamp(found.last_seen_ms / 1000.0)
FROM jsonb_to_recordset($1::text::jsonb) AS found
  (project_id integer, event text, property text, last_seen_ms bigint)
JOIN projects ON projects.id = found.project_id
ON CONFLICT (project_id, event, property) DO UPDATE SET last_seen_at = excluded.last_seen_at
WHERE known.last_seen_at IS NULL OR known.last_seen_at < excluded.last_seen_at - interval '1 minute'
