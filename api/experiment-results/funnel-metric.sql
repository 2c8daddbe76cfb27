-- A funnel after exposure: who of the exposed people took its steps, in order.
-- One row per variant, day and step: how many people reached the step on that day. Step 0 is the exposure itself.
-- `$multiple` is the variant of people who saw several; they are counted and left out of the steps.
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
            {{step_mask}} AS steps
        FROM events_with_person
        WHERE project_id = {project_id:UInt32}
            AND ({any_event:Bool} OR event IN {events:Array(String)})
            AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
            AND steps != 0
    ),
    paths AS
    (
        SELECT
            variant,
            -- The earliest event of each step after the one before it; an event is one step only.
            arrayFold(
                (reached, happened) -> if(bitTest(happened.2, length(reached)), arrayPushBack(reached, happened.1), reached),
                arraySort(groupArray((timestamp, steps))),
                CAST([], 'Array(DateTime64(3, \'UTC\'))')) AS reached
        FROM happenings
        INNER JOIN exposures USING (entity)
        WHERE variant != '$multiple'
            AND timestamp >= exposed_at
            AND ({window_seconds:UInt32} = 0 OR timestamp <= exposed_at + toIntervalSecond({window_seconds:UInt32}))
        GROUP BY entity, variant
    )
SELECT
    variant,
    toString(day) AS day,
    step,
    count() AS people
FROM
(
    SELECT variant, toDate(exposed_at, {timezone:String}) AS day, 0 AS step
    FROM exposures
    UNION ALL
    SELECT variant, toDate(reached_at, {timezone:String}) AS day, step
    FROM paths
    ARRAY JOIN reached AS reached_at, arrayEnumerate(reached) AS step
)
GROUP BY variant, day, step
ORDER BY variant, day, step
