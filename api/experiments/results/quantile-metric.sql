-- A quantile of the values of people, by variant: the smallest value that so large a share does not exceed, and the
-- order statistics that bound it (binomial, by the normal approximation).
WITH
{{person_values}}
SELECT
    {{variant_name}} AS variant,
    exposed,
    several,
    size,
    toFloat64(length(ranked)) AS people,
    {z:Float64} * sqrt(people * {quantile:Float64} * (1 - {quantile:Float64})) AS reach,
    arraySum(ranked) AS sum,
    ranked[toUInt32(greatest(ceil(people * {quantile:Float64}), 1))] AS value,
    greatest(floor(people * {quantile:Float64} - reach), 1) AS low,
    least(ceil(people * {quantile:Float64} + reach) + 1, people) AS high,
    -- The bounds are whole ranks, a little more than `reach` apart.
    (ranked[toUInt32(high)] - ranked[toUInt32(low)]) / greatest(high - low, 1) * reach / {z:Float64} AS error
FROM
(
    SELECT
        variant,
        count() AS exposed,
        countIf(saw_several) AS several,
        max(size) AS size,
        arraySort(groupArrayIf(ys[-1], is_measured)) AS ranked
    FROM people
    GROUP BY variant
)
