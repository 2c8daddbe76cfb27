-- The columns of a view have no comments until it is told.
ALTER TABLE ingestion_warnings {{on_cluster}}
    COMMENT COLUMN project_id 'Project; 0 for requests with a wrong key, which belong to none',
    COMMENT COLUMN minute 'Minute in which ingest received the events, or persons were updated; UTC',
    COMMENT COLUMN reason 'Why; see docs/ingestion-warnings.md',
    COMMENT COLUMN effect 'What happened: dropped, replaced, cut or refused',
    COMMENT COLUMN count 'Events; of rate_limited and wrong_key requests. Exact',
    COMMENT COLUMN samples 'At most five cases, newest first: event, distinct id, uuid, SDK, its version, the value at fault'
