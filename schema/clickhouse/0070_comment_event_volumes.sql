-- The columns of a view have no comments until it is told: what BI tools show, and docs/data-dictionary.md.
ALTER TABLE event_volumes {{on_cluster}}
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event, such as $pageview or order paid',
    COMMENT COLUMN volume 'Events of that name over all time',
    COMMENT COLUMN last_seen 'Latest event timestamp'
