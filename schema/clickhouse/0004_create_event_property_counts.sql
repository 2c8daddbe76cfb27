-- Which properties occur on which events, with which types, and how often; fed by a materialized view on events.
-- Expected size: one row per project, event name, property and type.
-- ORDER BY: read by project and property (definitions), or by project and event (which properties has this event).
CREATE TABLE IF NOT EXISTS event_property_counts {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event',
    kind Enum8('event' = 1, 'person' = 2, 'group' = 3) COMMENT 'What the property describes: the event, its person ($set, $set_once) or a group ($group_set)',
    group_type LowCardinality(String) COMMENT 'Group type of a group property, else empty',
    property String COMMENT 'Name of the property',
    type Enum8('none' = 0, 'String' = 1, 'Numeric' = 2, 'Boolean' = 3, 'DateTime' = 4) COMMENT 'Type of the value, inferred from its JSON form; none for null, arrays and objects',
    count SimpleAggregateFunction(sum, UInt64) COMMENT 'Events that carried the property with that type; sum it',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Latest event timestamp',
    last_inserted SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the count last changed; the roll-up reads what is new by it'
)
ENGINE = {{replicated}}AggregatingMergeTree
ORDER BY (project_id, event, kind, group_type, property, type)
SETTINGS {{deduplication_window}}
COMMENT 'Properties by event with inferred types, partly merged; query event_properties'
