-- Materialized views are listed among the tables, so they say what they are.
ALTER TABLE event_property_counts_view {{on_cluster}}
    MODIFY COMMENT 'Feeds event_property_counts from each insert into events; nothing to query',
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event',
    COMMENT COLUMN kind 'What the property describes',
    COMMENT COLUMN group_type 'Group type of a group property, else empty',
    COMMENT COLUMN property 'Name of the property',
    COMMENT COLUMN type 'Type of the value',
    COMMENT COLUMN count 'Events of one insert that carried the property with that type',
    COMMENT COLUMN last_seen 'Latest event timestamp of one insert',
    COMMENT COLUMN last_inserted 'Time of the insert'
