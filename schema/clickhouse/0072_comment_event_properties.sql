-- The columns of a view have no comments until it is told.
ALTER TABLE event_properties {{on_cluster}}
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN event 'Name of the event',
    COMMENT COLUMN kind 'What the property describes: the event, its person ($set, $set_once) or a group ($group_set)',
    COMMENT COLUMN group_type 'Group type of a group property, else empty',
    COMMENT COLUMN property 'Name of the property',
    COMMENT COLUMN type 'Type of the value, inferred from its JSON form; none for null, arrays and objects',
    COMMENT COLUMN count 'Events that carried the property with that type',
    COMMENT COLUMN last_seen 'Latest event timestamp'
