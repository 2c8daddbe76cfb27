-- How often each event occurred, by day; fed by a materialized view on events, in the same insert.
-- Expected size: one row per project, event name and day.
-- ORDER BY: read by project, mostly for all its events over the last days.
CREATE TABLE IF NOT EXISTS event_volumes_by_day {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event',
    day Date COMMENT 'Day of the event timestamp, UTC',
    volume SimpleAggregateFunction(sum, UInt64) COMMENT 'Events of that day; sum it, rows merge in the background',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Latest event timestamp',
    last_inserted SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the volume last changed; the roll-up reads what is new by it',
    first_seen SimpleAggregateFunction(min, DateTime64(3, 'UTC')) DEFAULT last_seen COMMENT 'Earliest event timestamp'
)
ENGINE = {{replicated}}AggregatingMergeTree{{this_shard}}
ORDER BY (project_id, event, day)
SETTINGS {{deduplication_window}}
COMMENT 'Volume and last_seen by project, event and day, partly merged; query event_volumes or event_volumes_daily';

-- Feeds event_volumes_by_day from each insert into events.
CREATE MATERIALIZED VIEW IF NOT EXISTS event_volumes_by_day_view {{on_cluster}} TO event_volumes_by_day
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event',
    day Date COMMENT 'Day of the event timestamp, UTC',
    volume UInt64 COMMENT 'Events of one insert',
    last_seen DateTime64(3, 'UTC') COMMENT 'Latest event timestamp of one insert',
    last_inserted DateTime64(3) COMMENT 'Time of the insert',
    first_seen DateTime64(3, 'UTC') COMMENT 'Earliest event timestamp of one insert'
)
AS
SELECT
    project_id,
    event,
    toDate(timestamp) AS day,
    count() AS volume,
    max(timestamp) AS last_seen,
    now64(3) AS last_inserted,
    min(timestamp) AS first_seen
FROM events
GROUP BY project_id, event, day
COMMENT 'Feeds event_volumes_by_day from each insert into events; nothing to query';

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
    last_inserted SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the count last changed; the roll-up reads what is new by it',
    first_seen SimpleAggregateFunction(min, DateTime64(3, 'UTC')) DEFAULT last_seen COMMENT 'Earliest event timestamp'
)
ENGINE = {{replicated}}AggregatingMergeTree{{this_shard}}
ORDER BY (project_id, event, kind, group_type, property, type)
SETTINGS {{deduplication_window}}
COMMENT 'Properties by event with inferred types, partly merged; query event_properties';

-- Feeds event_property_counts from each insert into events. Rows of one shape share their property_types text, so
-- they are counted first and split afterwards: the cost is per shape, not per row.
CREATE MATERIALIZED VIEW IF NOT EXISTS event_property_counts_view {{on_cluster}} TO event_property_counts
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event',
    kind Enum8('event' = 1, 'person' = 2, 'group' = 3) COMMENT 'What the property describes',
    group_type String COMMENT 'Group type of a group property, else empty',
    property String COMMENT 'Name of the property',
    type Enum8('none' = 0, 'String' = 1, 'Numeric' = 2, 'Boolean' = 3, 'DateTime' = 4) COMMENT 'Type of the value',
    count UInt64 COMMENT 'Events of one insert that carried the property with that type',
    last_seen DateTime64(3, 'UTC') COMMENT 'Latest event timestamp of one insert',
    last_inserted DateTime64(3) COMMENT 'Time of the insert',
    first_seen DateTime64(3, 'UTC') COMMENT 'Earliest event timestamp of one insert'
)
AS
SELECT
    project_id,
    event,
    CAST(transform(substring(entry, 1, 1), ['e', 'p', 'g'], ['event', 'person', 'group'], 'event'), 'Enum8(\'event\' = 1, \'person\' = 2, \'group\' = 3)') AS kind,
    if(substring(entry, 1, 1) = 'g', splitByChar('\x01', substring(entry, 3))[1], '') AS group_type,
    if(substring(entry, 1, 1) = 'g', splitByChar('\x01', substring(entry, 3))[2], substring(entry, 3)) AS property,
    CAST(transform(substring(entry, 2, 1), ['S', 'N', 'B', 'D'], ['String', 'Numeric', 'Boolean', 'DateTime'], 'none'), 'Enum8(\'none\' = 0, \'String\' = 1, \'Numeric\' = 2, \'Boolean\' = 3, \'DateTime\' = 4)') AS type,
    sum(rows) AS count,
    max(latest) AS last_seen,
    now64(3) AS last_inserted,
    min(earliest) AS first_seen
FROM
(
    SELECT project_id, event, property_types, count() AS rows, max(timestamp) AS latest, min(timestamp) AS earliest
    FROM events
    WHERE property_types != ''
    GROUP BY project_id, event, property_types
)
ARRAY JOIN splitByChar('\0', toString(property_types)) AS entry
GROUP BY project_id, event, kind, group_type, property, type
COMMENT 'Feeds event_property_counts from each insert into events; nothing to query';

-- Volume and last_seen by event over all time, exact at any moment: what an analyst reads.
CREATE VIEW IF NOT EXISTS event_volumes {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event, such as $pageview or order paid',
    volume UInt64 COMMENT 'Events of that name over all time',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Latest event timestamp'
)
AS
SELECT
    project_id,
    event,
    sum(volume) AS volume,
    max(last_seen) AS last_seen
FROM event_volumes_by_day
GROUP BY project_id, event
COMMENT 'Volume and last_seen by project and event';

-- Volume and last_seen by event and day, exact at any moment.
CREATE VIEW IF NOT EXISTS event_volumes_daily {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event, such as $pageview or order paid',
    day Date COMMENT 'Day of the event timestamp, UTC',
    volume UInt64 COMMENT 'Events of that name on that day',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Latest event timestamp of that day'
)
AS
SELECT
    project_id,
    event,
    day,
    sum(volume) AS volume,
    max(last_seen) AS last_seen
FROM event_volumes_by_day
GROUP BY project_id, event, day
COMMENT 'Volume and last_seen by project, event and day (UTC)';

-- Properties by event with types and counts, exact at any moment.
CREATE VIEW IF NOT EXISTS event_properties {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    event LowCardinality(String) COMMENT 'Name of the event',
    kind Enum8('event' = 1, 'person' = 2, 'group' = 3) COMMENT 'What the property describes: the event, its person ($set, $set_once) or a group ($group_set)',
    group_type LowCardinality(String) COMMENT 'Group type of a group property, else empty',
    property String COMMENT 'Name of the property',
    type Enum8('none' = 0, 'String' = 1, 'Numeric' = 2, 'Boolean' = 3, 'DateTime' = 4) COMMENT 'Type of the value, inferred from its JSON form; none for null, arrays and objects',
    count UInt64 COMMENT 'Events that carried the property with that type',
    last_seen SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Latest event timestamp'
)
AS
SELECT
    project_id,
    event,
    kind,
    group_type,
    property,
    type,
    sum(count) AS count,
    max(last_seen) AS last_seen
FROM event_property_counts
GROUP BY project_id, event, kind, group_type, property, type
COMMENT 'Which properties occur on which events, with inferred types and counts';
