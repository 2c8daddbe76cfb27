-- Events with their volume and the properties they carry, without touching the events themselves.
SELECT
    event,
    volume,
    last_seen,
    properties
FROM event_volumes
LEFT JOIN
(
    SELECT event, arraySort(groupUniqArray(concat(property, ':', toString(type)))) AS properties
    FROM event_properties
    WHERE project_id = {project:UInt32} AND kind = 'event'
    GROUP BY event
) AS carried USING (event)
WHERE project_id = {project:UInt32}
ORDER BY volume DESC, event
