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
    last_inserted SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the volume last changed; the roll-up reads what is new by it'
)
ENGINE = {{replicated}}AggregatingMergeTree
ORDER BY (project_id, event, day)
SETTINGS {{deduplication_window}}
COMMENT 'Volume and last_seen by project, event and day, partly merged; query event_volumes or event_volumes_daily'
