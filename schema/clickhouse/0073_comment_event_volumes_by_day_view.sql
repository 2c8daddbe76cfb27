-- Materialized views are listed among the tables, so they say what they are.
ALTER TABLE event_volumes_by_day_view {{on_cluster}}
    MODIFY COMMENT 'Feeds event_volumes_by_day from each insert into events; nothing to query',
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event',
    COMMENT COLUMN day 'Day of the event timestamp, UTC',
    COMMENT COLUMN volume 'Events of one insert',
    COMMENT COLUMN last_seen 'Latest event timestamp of one insert',
    COMMENT COLUMN last_inserted 'Time of the insert'
