-- The columns of a view have no comments until it is told.
ALTER TABLE event_volumes_daily {{on_cluster}}
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event, such as $pageview or order paid',
    COMMENT COLUMN day 'Day of the event timestamp, UTC',
    COMMENT COLUMN volume 'Events of that name on that day',
    COMMENT COLUMN last_seen 'Latest event timestamp of that day'
