-- Which properties occurred on which events since the given moment; since 1970 for all. Times from the future and NUL
-- as in read-event-volumes.sql.
WITH least(last_inserted, now64(3)) AS arrived
SELECT
    project_id,
    replaceAll(event, '\0', '\xEF\xBF\xBD') AS event_name,
    property,
    toUnixTimestamp64Milli(max(if(last_seen <= arrived + toIntervalMinute(1), last_seen, arrived))) AS last_seen_ms
FROM event_property_counts
WHERE kind = 'event' AND last_inserted >= fromUnixTimestamp64Milli({since:Int64})
GROUP BY project_id, event_name, property
ORDER BY project_id, event_name, property
