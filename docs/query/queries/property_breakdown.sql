-- An event by the values of a property that has no column of its own; a promoted column would be faster.
SELECT
    JSONExtractString(properties, {property:String}) AS value,
    sum(sample_weight) AS events
FROM events
WHERE project_id = {project:UInt32} AND event = {event:String}
  AND timestamp >= toDateTime({from:Date}, {timezone:String}) AND timestamp < toDateTime({to:Date}, {timezone:String})
GROUP BY value
ORDER BY events DESC, value
LIMIT 100
