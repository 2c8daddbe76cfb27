-- A metric of events per exposed person: their count, or the sum or mean of a property.
-- The value of a person changes on each day with an event of the metric, and holds for the span of days until the next
-- change. Spans are cut into blocks of 1, 2, 4, ... days (a segment tree), so that each day lies in one block a level:
-- how things stood on a day is what its blocks hold together, and nothing is ever subtracted. An amount that was taken
-- back leaves no trace, where a difference of sums would keep its rounding.
-- One row per variant, level and block (days since `first_day`, divided by 2^level): how many were first exposed in it
-- (level 0 only), how many people had a value all through it, their sum, and their squared deviations from their mean.
-- `$multiple` is the variant of people who saw several; they are counted and left out of the values.
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
            {{property_as_number}} AS number,
            trunc(assumeNotNull(number)) AS whole
        FROM events_with_person
        WHERE {{happened}}
            AND bitTest({{steps}}, 0)
    ),
    person_days AS
    (
        SELECT
            entity,
            variant,
            dateDiff('day', {first_day:Date32}, toDate32(timestamp, {timezone:String})) AS day,
            count() AS events,
            -- Whole numbers add up exactly, however large. What is left of each is below 1.
            sum(toInt256(whole)) AS wholes,
            sum(assumeNotNull(number) - whole) AS rests
        FROM happenings
        INNER JOIN exposures USING (entity)
        WHERE variant != '$multiple'
            AND timestamp >= exposed_at
            AND ({window_seconds:UInt32} = 0 OR timestamp <= exposed_at + toIntervalSecond({window_seconds:UInt32}))
            AND ({kind:String} = 'count' OR number IS NOT NULL)
        GROUP BY entity, variant, day
    ),
    paths AS
    (
        SELECT
            variant,
            arraySort(groupArray((day, events, wholes, rests))) AS days,
            arrayMap(day_of -> day_of.1, days) AS starts,
            arrayPushBack(arrayPopFront(starts), {days:UInt32}) AS ends,
            arrayMap(
                (happened, wholes_so_far, rests_so_far) -> multiIf(
                    {kind:String} = 'count', toFloat64(happened),
                    {kind:String} = 'sum', toFloat64(wholes_so_far) + rests_so_far,
                    (toFloat64(wholes_so_far) + rests_so_far) / happened),
                arrayCumSum(arrayMap(day_of -> day_of.2, days)),
                arrayCumSum(arrayMap(day_of -> day_of.3, days)),
                arrayCumSum(arrayMap(day_of -> day_of.4, days))) AS values
        FROM person_days
        GROUP BY entity, variant
    ),
    parts AS
    (
        SELECT
            variant,
            value,
            range({levels:UInt8}) AS levels,
            arrayJoin(arrayFilter(part -> part.3, arrayFlatten(arrayMap(
                (level, from, to) -> [(level, from, from < to AND from % 2 = 1), (level, to - 1, from < to AND to % 2 = 1)],
                levels,
                arrayMap(level -> intDiv(start + bitShiftLeft(toInt64(1), level) - 1, bitShiftLeft(toInt64(1), level)), levels),
                arrayMap(level -> intDiv(end, bitShiftLeft(toInt64(1), level)), levels))))) AS part
        FROM paths
        ARRAY JOIN starts AS start, ends AS end, values AS value
    )
SELECT
    variant,
    level,
    block,
    sum(first_seen) AS exposed,
    count(value) AS people,
    sum(value) AS sum,
    varPopStable(value) * people AS deviations
FROM
(
    SELECT
        variant,
        0 AS level,
        dateDiff('day', {first_day:Date32}, toDate32(exposed_at, {timezone:String})) AS block,
        1 AS first_seen,
        NULL AS value
    FROM exposures
    UNION ALL
    SELECT variant, part.1 AS level, part.2 AS block, 0 AS first_seen, value
    FROM parts
)
GROUP BY variant, level, block
ORDER BY variant, level, block
