-- The watermark of all projects together (project_id 0) and of each project that has events: what people and the API
-- read. The moment is the same for all, because one project's events are not told from another's where they wait.
-- The pipeline writes every two seconds at least: a row that is older says nothing of what it waits for now.
CREATE OR REPLACE VIEW watermarks {{on_cluster}} AS
SELECT
    project_id,
    toDateTime64(through, 3, 'UTC') AS complete_through,
    tupleElement(last, 'updated_at') AS updated_at,
    if(tupleElement(last, 'updated_at') < now64(3, 'UTC') - INTERVAL 10 SECOND,
        concat('pipeline: does not report since ', toString(tupleElement(last, 'updated_at')), ' UTC'),
        tupleElement(last, 'held_by')) AS held_by
FROM
(
    SELECT max(complete_through) AS through, max(state) AS last FROM watermark_reached GROUP BY id
) AS reached
CROSS JOIN
(
    SELECT toUInt32(0) AS project_id
    UNION ALL
    SELECT DISTINCT project_id FROM event_volumes_by_day
) AS known
COMMENT 'For each project the moment of receipt before which everything acknowledged is in events'
