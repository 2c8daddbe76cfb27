-- What was not stored as it was sent: running totals of each process that counts, by project, minute and reason.
-- Expected size: one row a minute for each process, project and reason that occurs, whatever the number of events; a
-- sample has at most 1,300 characters, a row at most three. Nothing that clients choose is in the key.
-- Totals only grow and samples are a set, so that a total inserted twice, or an old one after a new one, changes nothing.
-- ORDER BY: read by project and time. TTL: who asks why an event is missing asks within weeks.
CREATE TABLE IF NOT EXISTS ingestion_warnings_by_source {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project; 0 for requests with a wrong key, which belong to none',
    minute DateTime('UTC') COMMENT 'Minute in which ingest received the events, or persons were updated; UTC' CODEC(DoubleDelta, ZSTD(1)),
    reason LowCardinality(String) COMMENT 'Why; see docs/ingestion-warnings.md',
    source String COMMENT 'Process or partition that counted',
    effect SimpleAggregateFunction(anyLast, LowCardinality(String)) COMMENT 'What happened: dropped, replaced, cut or refused; follows from the reason',
    count SimpleAggregateFunction(max, UInt64) COMMENT 'Total of the minute so far, of this source',
    samples SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(received_at DateTime64(3, 'UTC'), event String, distinct_id String, uuid String, lib String, lib_version String, value String))) COMMENT 'At most three cases' CODEC(ZSTD(1))
)
ENGINE = {{replicated}}AggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (project_id, minute, reason, source)
TTL minute + toIntervalDay(90)
COMMENT 'Ingestion warnings, partly merged; query ingestion_warnings'
