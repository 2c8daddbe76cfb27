-- Values per exposed person, several of each: of the metric, of its denominator, and of both before the exposure.
-- The value of a person changes on each day with an event of the metric, and holds for the span of days until the next
-- change. Spans are cut into blocks of 1, 2, 4, ... days (a segment tree), so that each day lies in one block a level:
-- how things stood on a day is what its blocks hold together, and nothing is ever subtracted. An amount that was taken
-- back leaves no trace, where a difference of sums would keep its rounding.
-- One row per variant, level and block (days since `first_day`, divided by 2^level): how many people had values all
-- through it, their sums, and the products of their deviations from the means (moments.ts); of level -1, how many were
-- first exposed on the day. Who saw several variants is left out of the values.
-- `caps` are what values were cut to, beginning with the lower bound of the first; empty without winsorizing.
WITH
{{person_values}},
    capped AS
    (
        SELECT *, {{caps}} AS caps
        FROM people
    ),
    spans AS
    (
        SELECT variant, saw_several, size, caps, start, end, {{capped}}, toFloat64(has_history) AS h
        FROM capped
        ARRAY JOIN arrayPushFront(starts, exposed_on) AS start, arrayPushFront(ends, -1) AS end, {{changing}}
        WHERE start != end
    ),
    -- There are far fewer spans than people.
    alike AS
    (
        SELECT
            variant, start, end,
            any(caps) AS caps, max(size) AS size, count() AS people, countIf(saw_several) AS several,
            {{states}}
        FROM spans
        GROUP BY variant, start, end
    )
SELECT
    {{variant_name}} AS variant,
    part.1 AS level,
    part.2 AS block,
    sum(alike.people) AS people,
    sum(alike.several) AS several,
    max(alike.size) AS size,
    any(alike.caps) AS caps,
    {{sums}} AS sums,
    {{products}} AS products
FROM alike
ARRAY JOIN if(end < 0, [(-1, start)], arrayMap(part -> (part.1, part.2), arrayFilter(part -> part.3, arrayFlatten(arrayMap(
    (level, from, to) -> [(level, from, from < to AND from % 2 = 1), (level, to - 1, from < to AND to % 2 = 1)],
    range({levels:UInt8}) AS levels,
    arrayMap(level -> intDiv(start + bitShiftLeft(toInt64(1), level) - 1, bitShiftLeft(toInt64(1), level)), levels),
    arrayMap(level -> intDiv(end, bitShiftLeft(toInt64(1), level)), levels)))))) AS part
GROUP BY variant, level, block
