-- The watermark of all projects together (project_id 0) and of each project that has events: what people and the API
-- read. The moment is the same for all, because one project's events are not told from another's where they wait.
CREATE VIEW IF NOT EXISTS watermarks {{on_cluster}} AS
SELECT
    arrayJoin(arrayConcat([toUInt32(0)], projects)) AS project_id,
    toDateTime64(through, 3, 'UTC') AS complete_through,
    tupleElement(last, 'updated_at') AS updated_at,
    tupleElement(last, 'held_by') AS held_by
FROM
(
    SELECT max(complete_through) AS through, max(state) AS last FROM watermark_reached GROUP BY id
) AS reached
CROSS JOIN
(
    SELECT arraySort(groupUniqArray(project_id)) AS projects FROM event_volumes_by_day
) AS known
COMMENT 'For each project the moment of receipt before which everything acknowledged is in events'
