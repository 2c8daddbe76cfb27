-- Values per exposed person, several of each: of the metric, of its denominator, and of both before the exposure.
-- The value of a person changes on each day with an event of the metric, and holds for the span of days until the next
-- change. Spans are cut into blocks of 1, 2, 4, ... days (a segment tree), so that each day lies in one block a level:
-- how things stood on a day is what its blocks hold together, and nothing is ever subtracted. An amount that was taken
-- back leaves no trace, where a difference of sums would keep its rounding.
-- One row per variant, level and block (days since `first_day`, divided by 2^level): how many people had values all
-- through it, their sums, and the products of their deviations from the means (moments.ts); or (`exposed`, level 0) how
-- many were first exposed in it. `$multiple` is the variant of people who saw several and are left out of the values.
-- `caps` are what values were cut to, beginning with the lower bound of the first; empty without winsorizing.
WITH
{{person_values}},
    (
{{caps}}
    ) AS caps,
    parts AS
    (
        SELECT
            variant,
            {{capped}},
            toFloat64(has_history) AS h,
            range({levels:UInt8}) AS levels,
            arrayJoin(arrayFilter(part -> part.3, arrayFlatten(arrayMap(
                (level, from, to) -> [(level, from, from < to AND from % 2 = 1), (level, to - 1, from < to AND to % 2 = 1)],
                levels,
                arrayMap(level -> intDiv(start + bitShiftLeft(toInt64(1), level) - 1, bitShiftLeft(toInt64(1), level)), levels),
                arrayMap(level -> intDiv(end, bitShiftLeft(toInt64(1), level)), levels))))) AS part
        FROM people
        ARRAY JOIN starts AS start, ends AS end, ys AS own, ds AS own_below
    )
SELECT
    variant,
    part.1 AS level,
    part.2 AS block,
    0 AS exposed,
    0 AS saw_several,
    count() AS people,
    {{sums}} AS sums,
    {{products}} AS products,
    caps
FROM parts
GROUP BY variant, level, block
UNION ALL
SELECT
    variant,
    0 AS level,
    dateDiff('day', {first_day:Date32}, toDate32(exposed_at, {timezone:String})) AS block,
    count() AS exposed,
    countIf(saw_several) AS saw_several,
    0 AS people,
    [] AS sums,
    [] AS products,
    caps
FROM exposures
GROUP BY variant, block
