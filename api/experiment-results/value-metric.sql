-- A metric of events per exposed person: their count, or the sum or mean of a property.
-- One row per variant and day: who was first exposed on that day, and by how much the sums over all people of the
-- variant changed on that day. Cumulated over days they give n, sum and sum of squares as they stood on each day.
-- `$multiple` is the variant of people who saw several; they are counted and left out of the sums.
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
            {{property_as_number}} AS value
        FROM events_with_person
        WHERE project_id = {project_id:UInt32}
            AND ({any_event:Bool} OR event IN {events:Array(String)})
            AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
            AND bitTest({{step_mask}}, 0)
    ),
    person_days AS
    (
        SELECT
            entity,
            variant,
            toDate(timestamp, {timezone:String}) AS day,
            count() AS events,
            sum(assumeNotNull(value)) AS total
        FROM happenings
        INNER JOIN exposures USING (entity)
        WHERE variant != '$multiple'
            AND timestamp >= exposed_at
            AND ({window_seconds:UInt32} = 0 OR timestamp <= exposed_at + toIntervalSecond({window_seconds:UInt32}))
            AND ({kind:String} = 'count' OR value IS NOT NULL)
        GROUP BY entity, variant, day
    ),
    paths AS
    (
        SELECT
            variant,
            arraySort(day_of -> day_of.1, groupArray((day, events, total))) AS days,
            arrayCumSum(arrayMap(day_of -> toFloat64(day_of.2), days)) AS events_so_far,
            arrayCumSum(arrayMap(day_of -> toFloat64(day_of.3), days)) AS total_so_far,
            arrayMap((happened, total) -> multiIf({kind:String} = 'count', happened, {kind:String} = 'sum', total, total / happened),
                events_so_far, total_so_far) AS value_so_far,
            arrayPushFront(arrayPopBack(value_so_far), 0.) AS value_before
        FROM person_days
        GROUP BY entity, variant
    )
SELECT
    variant,
    toString(day) AS day,
    sum(exposed) AS exposed,
    sum(measured) AS measured,
    sum(change) AS sum,
    sum(change_of_square) AS sum_of_squares
FROM
(
    SELECT variant, toDate(exposed_at, {timezone:String}) AS day, 1 AS exposed, 0 AS measured, 0. AS change, 0. AS change_of_square
    FROM exposures
    UNION ALL
    SELECT
        variant,
        day_of.1 AS day,
        0 AS exposed,
        place = 1 AS measured,
        value - previous AS change,
        value * value - previous * previous AS change_of_square
    FROM paths
    ARRAY JOIN days AS day_of, value_so_far AS value, value_before AS previous, arrayEnumerate(days) AS place
)
GROUP BY variant, day
ORDER BY variant, day
