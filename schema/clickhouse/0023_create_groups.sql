-- Groups (companies, teams, ...) and their properties, copied from Postgres within a second of each change.
-- Expected size: one row a group after merges.
-- ORDER BY: joined by project, type and key with the map events.groups.
CREATE TABLE IF NOT EXISTS groups {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    group_type LowCardinality(String) COMMENT 'Group type, such as company; a key of events.groups',
    group_key String COMMENT 'Group; a value of events.groups' CODEC(ZSTD(1)),
    group_type_index UInt32 COMMENT 'Number of the group type in its project, by order of appearance from 0',
    properties String COMMENT 'Properties of the group as JSON text, as they are now' CODEC(ZSTD(1)),
    created_at DateTime64(3, 'UTC') COMMENT 'Time of the first $groupidentify of the group' CODEC(ZSTD(1)),
    version UInt64 COMMENT 'Orders the copies of a group: the highest one is valid' CODEC(ZSTD(1)),
    is_deleted UInt8 COMMENT '1 when the group was deleted',
    copied_at DateTime DEFAULT now() COMMENT 'When this copy was written'
)
ENGINE = {{replicated}}ReplacingMergeTree({{every_node}}version, is_deleted)
ORDER BY (project_id, group_type, group_key)
COMMENT 'Groups as they are now; read with FINAL'
