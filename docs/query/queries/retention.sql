-- Of the people first seen on a day of the range, how many came back after how many days. Anyone who was seen before the
-- range is not new, so the first days are looked for in all events. The days of each person are gathered before merges
-- are followed, which then are few. A copy of an event that is not merged away yet adds no day, so `final` would only cost.
SELECT
    first_day,
    dateDiff('day', first_day, arrayJoin(days)) AS days_later,
    count() AS people
FROM
(
    SELECT
        if(merged.version > 0, merged.person_id, seen.person_id) AS person,
        groupUniqArrayArray(seen.days) AS days,
        arrayMin(days) AS first_day
    FROM
    (
        SELECT person_id, groupUniqArray(toDate(timestamp, {timezone:String})) AS days
        FROM events
        WHERE project_id = {project:UInt32} AND timestamp < toDateTime({to:Date}, {timezone:String})
        GROUP BY person_id
    ) AS seen
    ANY LEFT JOIN
    (
        SELECT old_person_id, person_id, version FROM person_overrides FINAL WHERE project_id = {project:UInt32}
    ) AS merged ON seen.person_id = merged.old_person_id
    GROUP BY person
    HAVING first_day >= {from:Date}
)
GROUP BY first_day, days_later
ORDER BY first_day, days_later
SETTINGS final = 0
