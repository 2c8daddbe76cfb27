-- The columns of a view that was replaced have no comments until it is told.
ALTER TABLE watermarks {{on_cluster}}
    COMMENT COLUMN project_id 'Project; 0 for all together',
    COMMENT COLUMN complete_through 'Every acknowledged event with an earlier received_at is in events, a dead letter, or a duplicate; UTC',
    COMMENT COLUMN updated_at 'When the pipeline wrote it last, by the clock of ClickHouse; UTC',
    COMMENT COLUMN held_by 'What it waits for when it is more than 5 seconds behind, or that nobody has written it for 10 seconds; empty otherwise'
