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
        -- Each event has a place of its own, also within a millisecond, and is asked for its last step first, so that it
        -- cannot follow itself. The window is a day in these units, and the fractions of its last millisecond.
        windowFunnel(362387869794303)(toUInt64((intDiv(event_of_person, 4) * 1048576 + number) * 4 - match), match = 1, match = 2, match = 3) AS level
    FROM
    (
        SELECT
            person_id,
            -- One number an event, which sorts by time, then by step: ms * 4 + the first step of its name.
            arraySort(groupArray(toUInt64(toUnixTimestamp64Milli(timestamp)) * 4 + indexOf(steps, event))) AS events_of_person
        FROM events_with_person
        WHERE project_id = {project:UInt32} AND event IN ({first:String}, {second:String}, {third:String})
          AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
        GROUP BY person_id
    )
    ARRAY JOIN events_of_person AS event_of_person, arrayEnumerate(events_of_person) AS number
    ARRAY JOIN arrayFilter(i -> steps[i] = steps[bitAnd(event_of_person, 3)], [1, 2, 3]) AS match
    GROUP BY person_id
)
ARRAY JOIN [1, 2, 3] AS step
GROUP BY step
ORDER BY step
