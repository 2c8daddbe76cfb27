-- How often an event happened, and by how many people, day by day in the time zone of the project.
SELECT
    toDate(timestamp, {timezone:String}) AS day,
    sum(sample_weight) AS events,
    uniqExact(person_id) AS people
FROM events_with_person
WHERE project_id = {project:UInt32} AND event = {event:String}
  AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
GROUP BY day
ORDER BY day WITH FILL FROM {from:Date} TO {to:Date}
