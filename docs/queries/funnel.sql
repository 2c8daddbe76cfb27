-- How many people got how far through three steps, in this order, within a day of the first.
SELECT
    level,
    count() AS people
FROM
(
    SELECT
        person_id,
        windowFunnel(86400)(
            toDateTime(timestamp), event = {first:String}, event = {second:String}, event = {third:String}
        ) AS level
    FROM events_with_person
    WHERE project_id = {project:UInt32} AND event IN ({first:String}, {second:String}, {third:String})
    GROUP BY person_id
)
WHERE level > 0
GROUP BY level
ORDER BY level
