-- What was not stored as it was sent, exact by project, minute and reason: what people and the API read.
CREATE VIEW IF NOT EXISTS ingestion_warnings {{on_cluster}} AS
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
COMMENT 'What was not stored as it was sent, by project, minute and reason, with samples'
