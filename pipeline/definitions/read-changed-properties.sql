-- Type and times of the properties whose counts changed since the given moment: a page, as in read-event-volumes.sql.
-- The type is the one
-- that most values had, which corrects a wrong first one; empty while only null, arrays and objects were seen. Times
-- from the future as in read-event-volumes.sql.
SELECT
    project_id,
    kind,
    group_type,
    property AS name,
    if(countIf(type != 'none') = 0, '', toString(argMaxIf(type, (type_count, -toInt8(type)), type != 'none'))) AS property_type,
    sum(type_count) AS counted_events,
    toUnixTimestamp64Milli(max(type_arrived)) - {clock_lead_ms:Int64} AS arrived_ms,
    toUnixTimestamp64Milli(max(type_last_seen)) AS last_seen_ms,
    toUnixTimestamp64Milli(min(type_first_seen)) AS first_seen_ms
FROM
(
    WITH least(last_inserted, now64(3)) AS arrived
    SELECT
        project_id, kind, group_type, property, type,
        sum(count) AS type_count,
        max(arrived) AS type_arrived,
        max(if(last_seen <= arrived + toIntervalMinute(1), last_seen, arrived)) AS type_last_seen,
        min(first_seen) AS type_first_seen
    FROM event_property_counts
    WHERE project_id BETWEEN {first_project:UInt32} AND {last_project:UInt32}
      AND (project_id, kind, group_type, property) IN
    (
        SELECT DISTINCT project_id, kind, group_type, property
        FROM event_property_counts
        WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
          AND project_id BETWEEN {first_project:UInt32} AND {last_project:UInt32} AND project_id NOT IN {except:Array(UInt32)}
          AND (project_id, toString(kind), toString(group_type), property)
            > ({after_1:UInt32}, {after_2:String}, {after_3:String}, {after_4:String})
        ORDER BY project_id, toString(kind), group_type, property
        LIMIT {limit:UInt32}
    )
    GROUP BY project_id, kind, group_type, property, type
)
GROUP BY project_id, kind, group_type, property
ORDER BY project_id, toString(kind), group_type, name
