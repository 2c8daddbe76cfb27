-- Members of cohorts, as a refresh found them. A refresh inserts a version in one statement, each row with the number of all
-- its rows: readers take the newest version that is whole (membersSql in engines/questions/question-sql.ts).
-- Expected size: one row a member, in three versions at most.
-- PARTITION BY: the pipeline drops a version, or a deleted cohort, without rewriting others. No person in ORDER BY, because
-- the rows of an erased person are rewritten and not removed, so that the version stays whole.
CREATE TABLE IF NOT EXISTS cohort_members {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    cohort_id UInt32 COMMENT 'Cohort',
    version UInt64 COMMENT 'Moment of the refresh, in Unix milliseconds' CODEC(ZSTD(1)),
    person_id UUID COMMENT 'Person, merges followed; zero in one row of each version, and of persons erased since' CODEC(ZSTD(1)),
    size UInt64 COMMENT 'Rows of the version; fewer are stored while it is being inserted or copied' CODEC(ZSTD(1))
)
ENGINE = {{replicated}}MergeTree{{whole}}
PARTITION BY (cohort_id, version)
ORDER BY (project_id, cohort_id, version)
COMMENT 'Members of cohorts by refresh; the newest version that has as many rows as it says is valid';
