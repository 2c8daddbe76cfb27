-- How many people got at least as far as each of three steps, in this order, within a day of the first. Each step is
-- another event, also when a step is named twice.
WITH [{first:String}, {second:String}, {third:String}] AS steps
SELECT
    step,
    steps[step] AS event,
    countIf(level >= step) AS people
FROM
(
    SELECT
        person_id,
        -- An event is asked for its last step first, so that it cannot follow itself. A day in units of place, and their fractions.
        windowFunnel(345600003996)(toUInt64(place * 4 - match), match = 1, match = 2, match = 3) AS level
    FROM
    (
        SELECT
            person_id, event,
            -- Events of one millisecond one after the other, in the order of the steps.
            toUInt64(toUnixTimestamp64Milli(timestamp)) * 1000
                + least(row_number() OVER (PARTITION BY person_id, timestamp ORDER BY indexOf(steps, event)), 999) AS place
        FROM events_with_person
        WHERE project_id = {project:UInt32} AND event IN ({first:String}, {second:String}, {third:String})
          AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
    )
    ARRAY JOIN arrayFilter(i -> steps[i] = event, [1, 2, 3]) AS match
    GROUP BY person_id
)
ARRAY JOIN [1, 2, 3] AS step
GROUP BY step
ORDER BY step
