-- Whether events carry values of flags ($feature/<key>): of each event, up to 20 of the last seven days are looked at.
SELECT
    event,
    count() AS looked_at,
    countIf(position(properties, '$feature/') > 0) AS with_flags
FROM
(
    SELECT event, properties
    FROM events
    WHERE project_id = {project_id:UInt32}
        AND event IN {events:Array(String)}
        AND timestamp >= now() - toIntervalDay(7)
    LIMIT 20 BY event
)
GROUP BY event
