-- Type and times of the properties whose counts changed since the given moment; since 1970 for all. The type is the one
-- that most values had, so that a wrong first one heals; empty while only null, arrays and objects were seen.
SELECT
    project_id,
    kind,
    group_type,
    property AS name,
    if(countIf(type != 'none') = 0, '', toString(argMaxIf(type, (type_count, -toInt8(type)), type != 'none'))) AS property_type,
    toUnixTimestamp64Milli(max(type_last_seen)) AS last_seen_ms,
    toUnixTimestamp64Milli(min(type_first_seen)) AS first_seen_ms
FROM
(
    SELECT
        project_id, kind, group_type, property, type,
        sum(count) AS type_count,
        max(last_seen) AS type_last_seen,
        min(last_seen) AS type_first_seen
    FROM event_property_counts
    WHERE (project_id, kind, group_type, property) IN
    (
        SELECT project_id, kind, group_type, property
        FROM event_property_counts
        WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
    )
    GROUP BY project_id, kind, group_type, property, type
)
GROUP BY project_id, kind, group_type, property
