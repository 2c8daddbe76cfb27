-- A funnel after exposure: who of the exposed people took its steps, in order.
-- One row per variant, day (since `first_day`) and step: how many people reached the step on that day. Step 0 is the
-- exposure itself. `$multiple` is the variant of people who saw several; they are counted and left out of the steps.
WITH
    exposures AS
    (
{{exposures}}
    ),
    happenings AS
    (
        SELECT
            {{entity}} AS entity,
            timestamp,
            {{steps}} AS steps
        FROM events_with_person
        WHERE {{happened}}
            AND steps != 0
    ),
    paths AS
    (
        SELECT
            variant,
            -- In order of time; of one moment, first what fits the fewest steps, and no more of a kind than there are steps.
            arraySort(groupArray((timestamp, bitCount(steps), steps))) AS all_events,
            arrayFilter((event, earlier) -> event != earlier, all_events, arrayShiftRight(all_events, {step_count:UInt8})) AS happened,
            arrayMap((event, number) -> (event.1, event.3, number), happened, arrayEnumerate(happened)) AS events,
            arrayMap(event -> event.1, events) AS times,
            arraySplit((event, time, before) -> time != before, events, times, arrayPushFront(arrayPopBack(times), times[1])) AS moments,
            -- The earliest event of each step after the one before it; an event is one step only. In which order the events
            -- of one moment came is not known, so they are looked through once for each step that they may be.
            arrayFold(
                (path, event) -> if(
                    bitTest(event.2, length(path)) AND NOT has(path, (event.1, event.3)), arrayPushBack(path, (event.1, event.3)), path),
                arrayFlatten(arrayMap(moment -> arrayWithConstant(least(length(moment), {step_count:UInt8}), moment), moments)),
                CAST([], 'Array(Tuple(DateTime64(3, \'UTC\'), UInt32))')) AS path
        FROM happenings
        INNER JOIN exposures USING (entity)
        WHERE variant != '$multiple'
            AND timestamp >= exposed_at
            AND ({window_seconds:UInt32} = 0 OR timestamp <= exposed_at + toIntervalSecond({window_seconds:UInt32}))
        GROUP BY entity, variant
    )
SELECT
    variant,
    day,
    step,
    count() AS people
FROM
(
    SELECT variant, dateDiff('day', {first_day:Date32}, toDate32(exposed_at, {timezone:String})) AS day, 0 AS step
    FROM exposures
    UNION ALL
    SELECT variant, dateDiff('day', {first_day:Date32}, toDate32(reached.1, {timezone:String})) AS day, step
    FROM paths
    ARRAY JOIN path AS reached, arrayEnumerate(path) AS step
)
GROUP BY variant, day, step
ORDER BY variant, day, step
