-- Which events anybody sent in the time of the experiment, and whether one of them had a number in the property.
SELECT
    event,
    max({property:String} != '' AND {{property_as_number}} IS NOT NULL) AS has_number
FROM events
WHERE project_id = {project_id:UInt32}
    AND event IN {events:Array(String)}
    AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
GROUP BY event
