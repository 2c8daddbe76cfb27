-- How far everything acknowledged is known to be stored: a row written again up to five times a second while it moves.
-- Expected size: 64 rows at most. On one node they are in memory: a row costs a tenth of a part, and no flush. A server
-- that was restarted knows nothing until the pipeline says it again, a moment later. On a cluster the table is replicated,
-- because every replica has to know it.
-- No TTL, no ORDER BY in memory: the highest row is what holds.
CREATE TABLE IF NOT EXISTS watermark_reached {{on_cluster}}
(
    id UInt8 COMMENT 'Always 0',
    complete_through SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Moment of receipt before which everything acknowledged is stored; UTC',
    state SimpleAggregateFunction(max, Tuple(updated_at DateTime64(3, 'UTC'), held_by String)) COMMENT 'When it was written last, and what it waited for'
)
ENGINE = {{in_memory}}
COMMENT 'The last rows of the watermark; query watermarks';

-- The watermark of all projects together (project_id 0) and of each project that has events: what people and the API
-- read. The moment is the same for all, because one project's events are not told from another's where they wait.
-- The pipeline writes every two seconds at least: a row that is older says nothing of what it waits for now.
CREATE VIEW IF NOT EXISTS watermarks {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project; 0 for all together',
    complete_through DateTime64(3, 'UTC') COMMENT 'Every acknowledged event with an earlier received_at is in events, a dead letter, or a duplicate; UTC',
    updated_at DateTime64(3, 'UTC') COMMENT 'When the pipeline wrote it last, by the clock of ClickHouse; UTC',
    held_by String COMMENT 'What it waits for when it is more than 5 seconds behind, or that nobody has written it for 10 seconds; empty otherwise'
)
AS
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
COMMENT 'For each project the moment of receipt before which every acknowledged event is in events, a dead letter, or a duplicate';
