-- Since 0152 more reasons refuse whole requests, and events are quarantined or kept.
ALTER TABLE ingestion_warnings {{on_cluster}}
    COMMENT COLUMN project_id 'Project; 0 for requests that were refused before their project was known',
    COMMENT COLUMN effect 'What happened: dropped, replaced, cut, kept, quarantined or refused',
    COMMENT COLUMN count 'Events, or requests where the whole request was refused. Exact'
