-- A funnel after exposure: who of the exposed people took its steps, in order.
-- One row per variant, day (since `first_day`) and step: how many people reached the step on that day. Step 0 is the
-- exposure itself. Of variant 0 are people who saw several; they are counted and left out of the steps.
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
            saw_several,
            exposed_at,
            timestamp < exposed_at AS is_before,
            -- In order of time; of one moment, first what fits the fewest steps, and no more of a kind than there are steps.
            arraySort(groupArrayIf((timestamp, bitCount(steps), steps), {{counts}})) AS all_events,
            arrayFilter((event, earlier) -> event != earlier, all_events, arrayShiftRight(all_events, {step_count:UInt8})) AS happened,
            arrayMap((event, number) -> (event.1, event.3, number), happened, arrayEnumerate(happened)) AS events,
            arrayMap(event -> event.1, events) AS times,
            arraySplit((event, time, before) -> time != before, events, times, arrayShiftRight(times, 1, times[1])) AS moments,
            -- The earliest event of each step after the one before it; an event is one step only. In which order the events
            -- of one moment came is not known, so they are looked through once for each step that they may be.
            arrayFold(
                (path, event) -> if(
                    bitTest(event.2, length(path)) AND NOT has(path, (event.1, event.3)), arrayPushBack(path, (event.1, event.3)), path),
                arrayFlatten(arrayMap(moment -> arrayWithConstant(least(length(moment), {step_count:UInt8}), moment), moments)),
                CAST([], 'Array(Tuple(DateTime64(3, \'UTC\'), UInt32))')) AS path
        FROM happenings
        RIGHT JOIN exposures USING (entity)
        GROUP BY entity, variant, saw_several, exposed_at, is_before
    ),
    people AS
    (
        SELECT
            variant,
            saw_several,
            exposed_at,
            countIf(is_before AND length(path) = {step_count:UInt8}) AS had_all,
            arrayPushFront(arrayMap(reached -> reached.1, anyIf(path, NOT is_before)), exposed_at) AS times
        FROM paths
        GROUP BY entity, variant, saw_several, exposed_at
    )
SELECT
    {{variant_name}} AS variant,
    dateDiff('day', {first_day:Date32}, toDate32(reached.1, {timezone:String})) AS day,
    reached.2 AS step,
    reached.3 AS had,
    count() AS people,
    countIf(saw_several AND step = 0 AND had = 0) AS saw_several
FROM people
ARRAY JOIN arrayPushFront(
    arrayFilter(each -> each.2 > 0 OR each.3 = 1, arrayMap((at, number) -> (at, number - 1, had_all), times, arrayEnumerate(times))),
    (exposed_at, 0, 0)) AS reached
GROUP BY variant, day, step, had
ORDER BY variant, day, step, had
