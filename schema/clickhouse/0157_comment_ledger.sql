-- The columns of a view have no comments until it is told.
ALTER TABLE ledger {{on_cluster}}
    COMMENT COLUMN project_id 'Project',
    COMMENT COLUMN minute 'Minute of receipt (events.received_at), UTC; of dropped: in which ingest counted it',
    COMMENT COLUMN accepted 'Events that ingest published and the pipeline has dealt with. What still waits is not in it',
    COMMENT COLUMN replayed 'Events of dead letters that were replayed: accepted before, dealt with once more',
    COMMENT COLUMN duplicates 'Not stored, because the event was stored before',
    COMMENT COLUMN dead_lettered 'Kept as dead letters',
    COMMENT COLUMN deleted 'Removed by retention or with a person, or being removed',
    COMMENT COLUMN balance 'accepted + replayed - duplicates - dead_lettered - deleted: so many rows must be in events',
    COMMENT COLUMN dropped 'Answered with 200 and not published: no events, see ingestion_warnings'
