-- Of the people first seen on a day of the range, how many came back after how many days. Anyone who was seen before the
-- range is not new, so the first days are looked for in all events.
WITH first_seen AS
(
    SELECT person_id, min(toDate(timestamp, {timezone:String})) AS first_day
    FROM events_with_person
    WHERE project_id = {project:UInt32} AND timestamp < toDateTime({to:Date}, {timezone:String})
    GROUP BY person_id
    HAVING first_day >= {from:Date}
)
SELECT
    first_day,
    dateDiff('day', first_day, toDate(event.timestamp, {timezone:String})) AS days_later,
    uniqExact(event.person_id) AS people
FROM events_with_person AS event
INNER JOIN first_seen ON event.person_id = first_seen.person_id
WHERE event.project_id = {project:UInt32}
  AND event.timestamp >= toDateTime({from:Date}, {timezone:String})
  AND event.timestamp < toDateTime({to:Date}, {timezone:String})
GROUP BY first_day, days_later
ORDER BY first_day, days_later
