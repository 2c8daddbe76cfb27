-- How many definitions of each project have changed counts since the given moment, about.
SELECT project_id, toUInt32(uniqCombined(event, kind, property)) AS changes
FROM
(
    SELECT project_id, event, '' AS kind, '' AS property FROM event_volumes_by_day
    WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
    UNION ALL
    SELECT project_id, event, toString(kind), property FROM event_property_counts
    WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
)
GROUP BY project_id
ORDER BY project_id
