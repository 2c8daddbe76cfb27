-- Says how it is joined: without LEFT, only events of merged ids are left.
ALTER TABLE person_overrides {{on_cluster}}
    MODIFY COMMENT 'Merged persons: from the id computed for an event to the person it belongs to now. events_with_person does LEFT JOIN it; an id that was never merged has no row'
