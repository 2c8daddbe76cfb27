-- How often an event happened, and by how many people, day by day.
SELECT
    toDate(timestamp) AS day,
    count() AS events,
    uniqExact(person_id) AS people
FROM events_with_person
WHERE project_id = {project:UInt32} AND event = {event:String}
  AND timestamp >= {from:DateTime} AND timestamp < {to:DateTime}
GROUP BY day
ORDER BY day WITH FILL FROM toDate({from:DateTime}) TO toDate({to:DateTime})
