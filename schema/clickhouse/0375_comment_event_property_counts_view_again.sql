-- A new query takes the comments of all columns away.
ALTER TABLE event_property_counts_view {{on_cluster}}
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event',
    COMMENT COLUMN kind 'What the property describes',
    COMMENT COLUMN group_type 'Group type of a group property, else empty',
    COMMENT COLUMN property 'Name of the property',
    COMMENT COLUMN type 'Type of the value',
    COMMENT COLUMN count 'Events of one insert that carried the property with that type',
    COMMENT COLUMN last_seen 'Latest event timestamp of one insert',
    COMMENT COLUMN last_inserted 'Time of the insert',
    COMMENT COLUMN first_seen 'Earliest event timestamp of one insert'
