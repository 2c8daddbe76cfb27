-- A funnel after exposure: who of the exposed people took its steps, in order.
-- One row per variant, day (since `first_day`) and step: how many people reached the step on that day. Step 0 is the
-- exposure itself. `$multiple` is the variant of people who saw several; they are counted and left out of the steps.
-- `had` is 1 for people who had taken all steps in the `lookback` before their exposure; step 0 counts these once more.
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
            entity,
            variant,
            exposed_at,
            timestamp < exposed_at AS is_before,
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
        WHERE variant != '$multiple' AND {{counts}}
        GROUP BY entity, variant, exposed_at, is_before
    ),
    people AS
    (
        SELECT
            variant,
            countIf(is_before AND length(path) = {step_count:UInt8}) AS had,
            arrayPushFront(arrayMap(reached -> reached.1, anyIf(path, NOT is_before)), exposed_at) AS times
        FROM paths
        GROUP BY entity, variant, exposed_at
    )
SELECT
    variant,
    dateDiff('day', {first_day:Date32}, toDate32(at, {timezone:String})) AS day,
    step,
    had,
    count() AS people,
    countIf(several) AS saw_several
FROM
(
    SELECT variant, exposed_at AS at, 0 AS step, 0 AS had, saw_several AS several
    FROM exposures
    UNION ALL
    SELECT variant, at, number - 1 AS step, had, false AS several
    FROM people
    ARRAY JOIN times AS at, arrayEnumerate(times) AS number
    WHERE step > 0 OR had = 1
)
GROUP BY variant, day, step, had
ORDER BY variant, day, step, had
