-- Sessions that began in the range, with their length, first page and number of events. A session may reach over the
-- end of the range by a day, and one that began before it is left out whole.
SELECT
    session_id,
    toTimeZone(min(timestamp), {timezone:String}) AS started_at,
    dateDiff('second', min(timestamp), max(timestamp)) AS seconds,
    argMinIf(pathname, timestamp, pathname != '') AS first_page,
    count() AS events
FROM events
WHERE project_id = {project:UInt32} AND session_id != ''
  AND timestamp >= toDateTime({from:Date}, {timezone:String}) - INTERVAL 1 DAY
  AND timestamp < toDateTime({to:Date}, {timezone:String}) + INTERVAL 1 DAY
GROUP BY session_id
HAVING started_at >= toDateTime({from:Date}, {timezone:String})
   AND started_at < toDateTime({to:Date}, {timezone:String})
ORDER BY started_at, session_id
LIMIT 1000
