-- What is remembered by uuid of events that are not in events: sent again, dropped, deleted with their person. For receipts.
-- Expected size: 30 bytes a row. Rows are bounded where they are made (docs/receipts.md): duplicates 1,000 a minute of each
-- partition, drops 1,000 a minute of each ingest process; deleted ones once an event.
-- ORDER BY: read by project and uuid. The whole key follows from the message, so a trace inserted twice is one.
-- TTL: who asks for an event asks within days. A hash instead of the distinct id: the traces of a deleted person name nobody.
CREATE TABLE IF NOT EXISTS event_traces {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    uuid UUID COMMENT 'Uuid of the event',
    kind LowCardinality(String) COMMENT 'What happened: duplicate (came again, not stored again), dropped (answered with 200, not stored), deleted (with its person)',
    at DateTime64(3, 'UTC') COMMENT 'When it was received again or dropped, or its deletion was asked for' CODEC(DoubleDelta, ZSTD(1)),
    process LowCardinality(String) COMMENT 'Ingest process that received it',
    reason LowCardinality(String) COMMENT 'Why it was dropped; see docs/ingestion-warnings.md',
    partition LowCardinality(String) COMMENT 'Partition of the stream, of duplicates',
    sequence UInt64 COMMENT 'Sequence of its message in the stream, of duplicates' CODEC(ZSTD(1)),
    row UInt32 COMMENT 'Its row in that message' CODEC(ZSTD(1)),
    distinct_id_hash String COMMENT 'First 16 hexadecimal digits of SHA-256 of the distinct id, of dropped events; empty without one' CODEC(ZSTD(1))
)
ENGINE = {{replicated}}ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (project_id, uuid, kind, at, process, partition, sequence, row)
TTL toDateTime(at) + toIntervalDay(30)
COMMENT 'Events that came again, were dropped or deleted, by uuid, for 30 days and within limits'
