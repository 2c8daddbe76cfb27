-- The persons of events that are no longer the one computed from their distinct id, because of a merge. Ids that were
-- never merged have no row here, so the set is small and a join with it is cheap.
-- ORDER BY: joined by project and computed person id.
CREATE TABLE IF NOT EXISTS person_overrides {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    old_person_id UUID COMMENT 'Person id computed from a distinct id, as in events.person_id',
    person_id UUID COMMENT 'Person that the distinct id belongs to now',
    version UInt64 COMMENT 'Orders the copies: the highest one is valid' CODEC(ZSTD(1)),
    is_deleted UInt8 COMMENT '1 when the person was deleted, so that the computed id is valid again',
    copied_at DateTime DEFAULT now() COMMENT 'When this copy was written'
)
ENGINE = {{replicated}}ReplacingMergeTree({{every_node}}version, is_deleted)
ORDER BY (project_id, old_person_id)
COMMENT 'Merged persons: from the id computed for an event to the person it belongs to now; used by events_with_person'
