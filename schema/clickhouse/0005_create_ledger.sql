-- The books: what became of the events that ingest published, as running totals of each partition's owner, by project and
-- minute of receipt. Deletions add what they remove.
-- Expected size: a row a minute for each project and partition with events, some 20 bytes after compression.
-- Totals only grow, so that a total inserted twice, or an old one after a new one, changes nothing.
-- ORDER BY: read by project and time. No TTL: an audit of old events needs their books.
CREATE TABLE IF NOT EXISTS ledger_by_source {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    minute DateTime('UTC') COMMENT 'Minute of receipt (events.received_at), UTC' CODEC(DoubleDelta, ZSTD(1)),
    source String COMMENT 'Partition and position after which it counted, or a removal of events' CODEC(ZSTD(1)),
    accepted SimpleAggregateFunction(max, UInt64) COMMENT 'Events that ingest published and the pipeline has dealt with' CODEC(ZSTD(1)),
    replayed SimpleAggregateFunction(max, UInt64) COMMENT 'Events of dead letters that were replayed' CODEC(ZSTD(1)),
    duplicates SimpleAggregateFunction(max, UInt64) COMMENT 'Of them: not stored, because the event was stored before' CODEC(ZSTD(1)),
    dead_lettered SimpleAggregateFunction(max, UInt64) COMMENT 'Of them: dead-lettered' CODEC(ZSTD(1)),
    deletions_begun SimpleAggregateFunction(max, UInt64) COMMENT 'Events counted to be removed, before the removal began' CODEC(ZSTD(1)),
    deletions_done SimpleAggregateFunction(max, UInt64) COMMENT 'The same number when none of them was left' CODEC(ZSTD(1))
)
ENGINE = {{replicated}}AggregatingMergeTree{{this_shard}}
PARTITION BY toYYYYMM(minute)
ORDER BY (project_id, minute, source)
COMMENT 'The books by source, partly merged; query ledger';

-- The books as people and the API read them: per project and minute of receipt, one row.
CREATE VIEW IF NOT EXISTS ledger {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    minute DateTime('UTC') COMMENT 'Minute of receipt (events.received_at), UTC; of dropped: in which ingest counted it',
    accepted UInt64 COMMENT 'Events that ingest published and the pipeline has dealt with. What still waits is not in it',
    replayed UInt64 COMMENT 'Events of dead letters that were replayed: accepted before, dealt with once more',
    duplicates UInt64 COMMENT 'Not stored, because the event was stored before',
    dead_lettered UInt64 COMMENT 'Kept as dead letters',
    deleted UInt64 COMMENT 'Removed by retention or with a person, or being removed',
    balance Int64 COMMENT 'accepted + replayed - duplicates - dead_lettered - deleted: so many rows must be in events',
    dropped UInt64 COMMENT 'Answered with 200 and not published: invalid, or dropped by a rule, a schema or the sample of a quota; see ingestion_warnings'
)
AS
SELECT
    project_id,
    minute,
    sum(accepted_by_source) AS accepted,
    sum(replayed_by_source) AS replayed,
    sum(duplicates_by_source) AS duplicates,
    sum(dead_lettered_by_source) AS dead_lettered,
    sum(deleted_by_source) AS deleted,
    toInt64(accepted + replayed) - toInt64(duplicates + dead_lettered + deleted) AS balance,
    sum(dropped_by_source) AS dropped
FROM
(
    SELECT
        project_id,
        minute,
        source,
        max(accepted) AS accepted_by_source,
        max(replayed) AS replayed_by_source,
        max(duplicates) AS duplicates_by_source,
        max(dead_lettered) AS dead_lettered_by_source,
        max(deletions_begun) AS deleted_by_source,
        0 AS dropped_by_source
    FROM ledger_by_source
    GROUP BY project_id, minute, source
    UNION ALL
    SELECT project_id, minute, source, 0, 0, 0, 0, 0, max(count)
    FROM ingestion_warnings_by_source
    WHERE effect = 'dropped' AND project_id > 0
    GROUP BY project_id, minute, reason, source
)
GROUP BY project_id, minute
COMMENT 'The books by project and minute of receipt: what was accepted, and what became of it';
