-- The books as people and the API read them: per project and minute of receipt, one row.
CREATE VIEW IF NOT EXISTS ledger {{on_cluster}} AS
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
COMMENT 'The books by project and minute of receipt: what was accepted, and what became of it'
