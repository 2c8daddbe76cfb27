-- A quantile of the values of people, by variant: the smallest value that so large a share does not exceed, and the
-- order statistics that bound it (binomial, by the normal approximation). Who sent nothing has zero, but no mean.
WITH
{{person_values}}
SELECT
    variant,
    exposed,
    saw_several,
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
        sum(shown) AS exposed,
        countIf(several) AS saw_several,
        arraySort(arrayConcat(groupArray(last), if({is_mean:Bool}, [], arrayWithConstant(toUInt64(exposed - count(last)), 0.)))) AS ranked
    FROM
    (
        SELECT variant, 1 AS shown, saw_several AS several, NULL AS last FROM exposures
        UNION ALL
        SELECT variant, 0 AS shown, false AS several, ys[-1] AS last FROM people
    )
    GROUP BY variant
)
