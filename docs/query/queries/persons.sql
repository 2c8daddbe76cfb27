-- Events by person, merges followed into the past, with a property of the person as it is now.
SELECT
    event.person_id AS person_id,
    JSONExtractString(any(person.properties), {property:String}) AS property,
    count() AS events,
    arraySort(groupUniqArray(event.distinct_id)) AS distinct_ids
FROM events_with_person AS event
LEFT JOIN
(
    SELECT project_id, person_id, properties FROM persons FINAL
) AS person ON person.project_id = event.project_id AND person.person_id = event.person_id
WHERE event.project_id = {project:UInt32}
  AND event.timestamp >= toDateTime({from:Date}, {timezone:String})
  AND event.timestamp < toDateTime({to:Date}, {timezone:String})
GROUP BY event.person_id
ORDER BY events DESC, person_id
LIMIT 100
