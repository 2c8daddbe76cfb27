-- As prune-event-definitions.sql.
WITH ranked AS (
  SELECT id, last_arrived_at, row_number() OVER (ORDER BY last_arrived_at DESC) AS place,
    (tags = '{}' AND description = '' AND owner_id IS NULL AND NOT verified AND NOT hidden AND NOT property_type_is_manual
      AND query_usage_30_day = 0 AND renamed_at IS NULL AND query_usage_written_at IS NULL) AS is_untouched
  FROM property_definitions WHERE project_id = $1 AND last_arrived_at IS NOT NULL
)
DELETE FROM property_definitions AS pruned USING ranked
WHERE pruned.id = ranked.id AND ranked.is_untouched
  AND (ranked.last_arrived_at < now() - $2::integer * interval '1 day'
    OR (ranked.place > $3::bigint AND ranked.last_arrived_at < now() - interval '7 days'))
