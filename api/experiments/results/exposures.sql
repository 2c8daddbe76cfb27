-- Who was exposed: the first time each entity that is no bot saw a variant, and which one, by its place among `variants`;
-- 0 for who saw several.
SELECT
    entity,
    min(shown) != max(shown) AS saw_several,
    if(min(shown) = max(shown), min(shown), if({first_seen:Bool}, argMin(shown, (timestamp, shown)), 0)) AS variant,
    min(timestamp) AS exposed_at
FROM
(
    SELECT
        {{entity}} AS entity,
        toUInt16(indexOf({variants:Array(String)}, {{shown}})) AS shown,
        timestamp
    FROM events_with_person
    WHERE project_id = {project_id:UInt32}
        AND {{exposing}}
        AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
        AND shown != 0
        AND NOT is_bot
)
WHERE notEmpty(entity)
GROUP BY entity
