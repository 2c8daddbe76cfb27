-- Which properties occurred on which events since the given moment; since 1970 for all.
SELECT
    project_id,
    event,
    property,
    toUnixTimestamp64Milli(max(last_seen)) AS last_seen_ms
FROM event_property_counts
WHERE kind = 'event' AND last_inserted >= fromUnixTimestamp64Milli({since:Int64})
GROUP BY project_id, event, property
