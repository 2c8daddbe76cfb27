-- Which distinct ids belong to which person, copied from Postgres within a second of each change.
-- Expected size: one row a distinct id after merges.
-- ORDER BY: looked up by project and distinct id.
CREATE TABLE IF NOT EXISTS person_distinct_ids {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    distinct_id String COMMENT 'Distinct id, as in events' CODEC(ZSTD(1)),
    person_id UUID COMMENT 'Person it belongs to now, merges included',
    version UInt64 COMMENT 'Orders the copies: the highest one is valid' CODEC(ZSTD(1)),
    is_deleted UInt8 COMMENT '1 when the person was deleted',
    copied_at DateTime DEFAULT now() COMMENT 'When this copy was written'
)
ENGINE = {{replicated}}ReplacingMergeTree({{every_node}}version, is_deleted)
ORDER BY (project_id, distinct_id)
COMMENT 'Distinct ids of persons as they are now; read with FINAL'
