-- Removes definitions of events that are not seen any more. $1: the project. $2: for how many days they are kept.
-- $3: how many are kept of those that were not seen for a week; the ones seen last stay.
-- What somebody changed or queries name stays, and what no event has made. It comes back with its next event, created
-- when its first event occurred: nothing but its id is lost. A deletion is forgotten, too: old events are not read again.
WITH ranked AS (
  SELECT id, last_arrived_at, row_number() OVER (ORDER BY last_arrived_at DESC) AS place,
    (tags = '{}' AND description = '' AND owner_id IS NULL AND NOT verified AND NOT hidden AND NOT post_to_slack
      AND created_by IS NULL AND query_usage_30_day = 0
      AND volume_written_at IS NULL AND last_seen_written_at IS NULL AND query_usage_written_at IS NULL) AS is_untouched
  FROM event_definitions WHERE project_id = $1 AND last_arrived_at IS NOT NULL
)
DELETE FROM event_definitions AS pruned USING ranked
WHERE pruned.id = ranked.id AND ranked.is_untouched
  AND (ranked.last_arrived_at < now() - $2::integer * interval '1 day'
    OR (ranked.place > $3::bigint AND ranked.last_arrived_at < now() - interval '7 days'))
