-- How many people got at least as far as each of three steps, in this order, within a day of the first. An event is one
-- step at most (`strict_once`), also when a step is named twice.
SELECT
    step,
    [{first:String}, {second:String}, {third:String}][step] AS event,
    countIf(level >= step) AS people
FROM
(
    SELECT
        person_id,
        windowFunnel(86400000, 'strict_once')(
            toUInt64(toUnixTimestamp64Milli(timestamp)),
            event = {first:String}, event = {second:String}, event = {third:String}
        ) AS level
    FROM events_with_person
    WHERE project_id = {project:UInt32} AND event IN ({first:String}, {second:String}, {third:String})
      AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
    GROUP BY person_id
)
ARRAY JOIN [1, 2, 3] AS step
GROUP BY step
ORDER BY step
