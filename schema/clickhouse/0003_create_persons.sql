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
COMMENT 'Persons as they are now; read with FINAL. Who was seen on plain events only has no row: LEFT JOIN it to events_with_person';

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
COMMENT 'Distinct ids of persons as they are now; read with FINAL. An id seen on plain events only has no row';

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
COMMENT 'Merged persons: from the id computed for an event to the person it belongs to now. events_with_person does LEFT JOIN it; an id that was never merged has no row';

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
COMMENT 'Groups that sent $groupidentify, as they are now; read with FINAL. Others have no row: LEFT JOIN it to events';

-- Every event with the person it belongs to now: the one documented way to follow merges, for past events too.
-- A view rather than a dictionary: exact at once, and no login has to be written into it (docs/query/persons.md has the cost).
-- The join names project_id, so that a filter on the project also bounds what is read from person_overrides.
CREATE VIEW IF NOT EXISTS events_with_person {{on_cluster}} AS
SELECT
    event.* REPLACE (coalesce(nullIf(override.person_id, toUUID('00000000-0000-0000-0000-000000000000')), event.person_id) AS person_id)
FROM events AS event
ANY LEFT JOIN
(
    SELECT project_id, old_person_id, person_id
    FROM person_overrides FINAL
) AS override ON event.project_id = override.project_id AND event.person_id = override.old_person_id
COMMENT 'Events, with person_id following merges';
