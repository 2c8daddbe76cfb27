-- Which page people open after which, within a session.
SELECT
    page,
    next_page,
    count() AS times
FROM
(
    SELECT
        pathname AS page,
        leadInFrame(pathname) OVER (
            PARTITION BY session_id ORDER BY timestamp ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS next_page
    FROM events
    WHERE project_id = {project:UInt32} AND event = '$pageview' AND session_id != ''
      AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
)
WHERE next_page != ''
GROUP BY page, next_page
ORDER BY times DESC, page, next_page
LIMIT 100
