-- A new query takes the comments of all columns away.
ALTER TABLE event_volumes_by_day_view {{on_cluster}}
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event',
    COMMENT COLUMN day 'Day of the event timestamp, UTC',
    COMMENT COLUMN volume 'Events of one insert',
    COMMENT COLUMN last_seen 'Latest event timestamp of one insert',
    COMMENT COLUMN last_inserted 'Time of the insert',
    COMMENT COLUMN first_seen 'Earliest event timestamp of one insert'
