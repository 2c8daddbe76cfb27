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
ENGINE = {{replicated}}AggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (project_id, minute, source)
COMMENT 'The books by source, partly merged; query ledger'
