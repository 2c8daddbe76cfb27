-- Which properties occurred on which events since the given moment: a page, as in read-event-volumes.sql. Times from
-- the future and NUL as there; a name with NUL in it stays distinct here, so that a page reads only its part of the
-- table, in its order. `event_key` is the name as it is, in hexadecimal.
WITH least(last_inserted, now64(3)) AS arrived, unhex({after_2:String}) AS after_event
SELECT
    project_id,
    hex(toString(event)) AS event_key,
    replaceAll(toString(event), '\0', '\xEF\xBF\xBD') AS event_name,
    property,
    toUnixTimestamp64Milli(max(arrived)) - {clock_lead_ms:Int64} AS arrived_ms,
    toUnixTimestamp64Milli(max(if(last_seen <= arrived + toIntervalMinute(1), last_seen, arrived))) AS last_seen_ms
FROM event_property_counts
WHERE kind = 'event' AND last_inserted >= fromUnixTimestamp64Milli({since:Int64})
  AND project_id BETWEEN greatest({first_project:UInt32}, {after_1:UInt32}) AND {last_project:UInt32}
  AND project_id NOT IN {except:Array(UInt32)}
  -- What the primary key can tell, and then exactly.
  AND (project_id > {after_1:UInt32} OR event >= after_event)
  AND (project_id > {after_1:UInt32} OR event > after_event OR property > {after_3:String})
GROUP BY project_id, event, kind, group_type, property
ORDER BY project_id, event, kind, group_type, property
LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1
