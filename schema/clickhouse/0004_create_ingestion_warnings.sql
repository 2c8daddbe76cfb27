-- What was not stored as it was sent: running totals of each process that counts, by project, minute and reason.
-- Expected size: one row a minute for each process, project and reason that occurs, whatever the number of events; a
-- sample has at most 1,300 characters, a row at most three. Nothing that clients choose is in the key.
-- Totals only grow and samples are a set, so that a total inserted twice, or an old one after a new one, changes nothing.
-- ORDER BY: read by project and time. TTL: who asks why an event is missing asks within weeks.
CREATE TABLE IF NOT EXISTS ingestion_warnings_by_source {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project; 0 for requests that were refused before their project was known',
    minute DateTime('UTC') COMMENT 'Minute in which ingest received the events, or persons were updated; UTC' CODEC(DoubleDelta, ZSTD(1)),
    reason LowCardinality(String) COMMENT 'Why; see docs/send/what-happens-to-an-event.md',
    source String COMMENT 'Process or partition that counted; with /rule/ or /schema/ and the id of what it counts alone',
    effect SimpleAggregateFunction(anyLast, LowCardinality(String)) COMMENT 'What happened: dropped, replaced, cut, kept, quarantined or refused; follows from the reason',
    count SimpleAggregateFunction(max, UInt64) COMMENT 'Total of the minute so far, of this source: events, or requests where the whole request was refused',
    samples SimpleAggregateFunction(groupUniqArrayArray, Array(Tuple(received_at DateTime64(3, 'UTC'), event String, distinct_id String, uuid String, lib String, lib_version String, value String))) COMMENT 'At most three cases' CODEC(ZSTD(1))
)
ENGINE = {{replicated}}AggregatingMergeTree{{this_shard}}
PARTITION BY toYYYYMM(minute)
ORDER BY (project_id, minute, reason, source)
TTL minute + toIntervalDay(90)
COMMENT 'Ingestion warnings, partly merged; query ingestion_warnings';

-- What was not stored as it was sent, exact by project, minute and reason: what people and the API read.
CREATE VIEW IF NOT EXISTS ingestion_warnings {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project; 0 for requests that were refused before their project was known',
    minute DateTime('UTC') COMMENT 'Minute in which ingest received the events, or persons were updated; UTC',
    reason LowCardinality(String) COMMENT 'Why; see docs/send/what-happens-to-an-event.md',
    effect String COMMENT 'What happened: dropped, replaced, cut, kept, quarantined or refused',
    count UInt64 COMMENT 'Events, or requests where the whole request was refused. Exact',
    samples Array(Tuple(received_at DateTime64(3, 'UTC'), event String, distinct_id String, uuid String, lib String, lib_version String, value String)) COMMENT 'At most five cases, newest first: event, distinct id, uuid, SDK, its version, the value at fault'
)
AS
SELECT
    project_id,
    minute,
    reason,
    any(effect_of_source) AS effect,
    sum(count_of_source) AS count,
    arraySlice(arrayReverseSort(groupUniqArrayArray(samples_of_source)), 1, 5) AS samples
FROM
(
    SELECT
        project_id,
        minute,
        reason,
        source,
        any(effect) AS effect_of_source,
        max(count) AS count_of_source,
        groupUniqArrayArray(samples) AS samples_of_source
    FROM ingestion_warnings_by_source
    GROUP BY project_id, minute, reason, source
)
GROUP BY project_id, minute, reason
COMMENT 'What was not stored as it was sent, by project, minute and reason, with samples';
