-- Who was exposed: the first time each entity that is no bot saw a variant of the flag, and which one.
SELECT
    entity,
    if(uniqExact(shown) > 1, '$multiple', any(shown)) AS variant,
    min(timestamp) AS exposed_at
FROM
(
    SELECT
        {{entity}} AS entity,
        feature_flag_response AS shown,
        timestamp
    FROM events_with_person
    WHERE project_id = {project_id:UInt32}
        AND event = '$feature_flag_called'
        AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
        AND feature_flag = {flag:String}
        AND has({variants:Array(String)}, feature_flag_response)
        AND NOT is_bot
)
WHERE entity != ''
GROUP BY entity
