-- Who was exposed: the first time each entity that is no bot saw a variant, and which one.
SELECT
    entity,
    multiIf(uniqExact(shown) = 1, any(shown), {first_seen:Bool}, argMin(shown, (timestamp, shown)), '$multiple') AS variant,
    uniqExact(shown) > 1 AS saw_several,
    min(timestamp) AS exposed_at
FROM
(
    SELECT
        {{entity}} AS entity,
        {{shown}} AS shown,
        timestamp
    FROM events_with_person
    WHERE project_id = {project_id:UInt32}
        AND {{exposing}}
        AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
        AND has({variants:Array(String)}, shown)
        AND NOT is_bot
)
WHERE notEmpty(entity)
GROUP BY entity
