-- As prune-event-definitions.sql. Nobody changes a pair; one without a time of arrival was not seen since pairs have one.
WITH ranked AS (
  SELECT event, property, last_arrived_at, row_number() OVER (ORDER BY last_arrived_at DESC NULLS LAST) AS place
  FROM event_properties WHERE project_id = $1
)
DELETE FROM event_properties AS pruned USING ranked
WHERE pruned.project_id = $1 AND pruned.event = ranked.event AND pruned.property = ranked.property
  AND (ranked.last_arrived_at IS NULL OR ranked.last_arrived_at < now() - $2::integer * interval '1 day'
    OR (ranked.place > $3::bigint AND ranked.last_arrived_at < now() - interval '7 days'))
