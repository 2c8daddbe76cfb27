-- Of the people first seen on a day, how many came back after how many days.
WITH first_seen AS
(
    SELECT person_id, min(toDate(timestamp)) AS first_day
    FROM events_with_person
    WHERE project_id = {project:UInt32}
    GROUP BY person_id
)
SELECT
    first_day,
    dateDiff('day', first_day, toDate(event.timestamp)) AS days_later,
    uniqExact(event.person_id) AS people
FROM events_with_person AS event
INNER JOIN first_seen ON event.person_id = first_seen.person_id
WHERE event.project_id = {project:UInt32}
GROUP BY first_day, days_later
ORDER BY first_day, days_later
