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
        -- One number an event, which sorts by time, then by the first step of its name: ms * 4 + that step.
        arraySort(groupArray(toUInt64(toUnixTimestamp64Milli(timestamp)) * 4 + indexOf(steps, event))) AS events,
        arrayMap(number -> intDiv(number, 4), events) AS times,
        arrayMap(number -> steps[bitAnd(number, 3)], events) AS names,
        -- For each event the latest first step from which it is reached as the first, second or third one; 0: it is not.
        arrayMap((name, time) -> if(name = steps[1], time, 0), names, times) AS firsts,
        arrayMap((name, time, start) -> if(name = steps[2] AND start != 0 AND time - start <= 86400000, start, 0), names, times, arrayPushFront(arrayPopBack(arrayFill(start -> start != 0, firsts)), 0)) AS seconds,
        arrayMap((name, time, start) -> if(name = steps[3] AND start != 0 AND time - start <= 86400000, start, 0), names, times, arrayPushFront(arrayPopBack(arrayFill(start -> start != 0, seconds)), 0)) AS thirds,
        (arrayMax(firsts) > 0) + (arrayMax(seconds) > 0) + (arrayMax(thirds) > 0) AS level
    FROM events_with_person
    WHERE project_id = {project:UInt32} AND event IN ({first:String}, {second:String}, {third:String})
      AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
    GROUP BY person_id
)
ARRAY JOIN [1, 2, 3] AS step
GROUP BY step
ORDER BY step
