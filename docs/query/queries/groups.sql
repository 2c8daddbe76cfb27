-- Events and people by group, with a property of the group as it is now.
SELECT
    event.groups[{group_type:String}] AS group_key,
    JSONExtractString(any(of_group.properties), {property:String}) AS property,
    sum(sample_weight) AS events,
    uniqExact(event.person_id) AS people
FROM events_with_person AS event
LEFT JOIN
(
    SELECT project_id, group_type, group_key, properties FROM groups FINAL
) AS of_group ON of_group.project_id = event.project_id
    AND of_group.group_type = {group_type:String}
    AND of_group.group_key = event.groups[{group_type:String}]
WHERE event.project_id = {project:UInt32} AND group_key != ''
  AND event.timestamp >= toDateTime({from:Date}, {timezone:String})
  AND event.timestamp < toDateTime({to:Date}, {timezone:String})
GROUP BY group_key
ORDER BY events DESC, group_key
LIMIT 100
