-- The comment said "join persons to follow merges", which loses the events of everybody who was merged.
ALTER TABLE events {{on_cluster}}
    COMMENT COLUMN person_id 'Person computed from project and distinct_id (UUIDv5), never rewritten. Merges are followed by events_with_person, or by LEFT JOIN person_overrides FINAL on project_id and old_person_id'
