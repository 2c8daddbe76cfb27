-- Persons, copied from Postgres within a second of each change.
-- Expected size: one row a person after merges, most of it `properties`.
-- ORDER BY: joined by project and person id.
CREATE TABLE IF NOT EXISTS persons {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    person_id UUID COMMENT 'Person; equals person_id of events_with_person',
    properties String COMMENT 'Properties of the person as JSON text, as they are now; read with JSONExtract functions' CODEC(ZSTD(1)),
    is_identified Bool COMMENT 'Whether the person was ever identified ($identify, $create_alias, $merge_dangerously)',
    created_at DateTime64(3, 'UTC') COMMENT 'Time of the first event that made the person known' CODEC(ZSTD(1)),
    version UInt64 COMMENT 'Orders the copies of a person: the highest one is valid' CODEC(ZSTD(1)),
    is_deleted UInt8 COMMENT '1 when the person was deleted, or merged into another one',
    copied_at DateTime DEFAULT now() COMMENT 'When this copy was written'
)
ENGINE = {{replicated}}ReplacingMergeTree({{every_node}}version, is_deleted)
ORDER BY (project_id, person_id)
COMMENT 'Persons as they are now; read with FINAL'
