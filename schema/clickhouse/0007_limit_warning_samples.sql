-- A row has three samples, then one for each second in which there was a case, for those who watch live events. Whoever
-- reads warnings gets five: taken from each row before rows are merged, so that a query over months keeps few in memory.
ALTER TABLE ingestion_warnings_by_source {{on_cluster}} COMMENT COLUMN samples 'Three cases of the minute, then at most one each second';

CREATE OR REPLACE VIEW ingestion_warnings {{on_cluster}}
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
        groupUniqArrayArray(arraySlice(arrayReverseSort(samples), 1, 5)) AS samples_of_source
    FROM ingestion_warnings_by_source
    GROUP BY project_id, minute, reason, source
)
GROUP BY project_id, minute, reason
COMMENT 'What was not stored as it was sent, by project, minute and reason, with samples';
