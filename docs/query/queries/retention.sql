-- Of the people first seen on a day of the range, how many came back after how many days. Anyone who was seen before the
-- range is not new, so the first days are looked for in all events.
SELECT
    first_day,
    dateDiff('day', first_day, arrayJoin(days)) AS days_later,
    count() AS people
FROM
(
    SELECT
        person_id,
        groupUniqArray(toDate(timestamp, {timezone:String})) AS days,
        arrayMin(days) AS first_day
    FROM events_with_person
    WHERE project_id = {project:UInt32} AND timestamp < toDateTime({to:Date}, {timezone:String})
    GROUP BY person_id
    HAVING first_day >= {from:Date}
)
GROUP BY first_day, days_later
ORDER BY first_day, days_later
