-- Sessions with their length, first page and number of events.
SELECT
    session_id,
    min(timestamp) AS started_at,
    dateDiff('second', min(timestamp), max(timestamp)) AS seconds,
    argMin(pathname, timestamp) AS first_page,
    count() AS events
FROM events
WHERE project_id = {project:UInt32} AND session_id != ''
GROUP BY session_id
ORDER BY started_at, session_id
LIMIT 1000
