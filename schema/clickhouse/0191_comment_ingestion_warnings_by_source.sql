-- Since 0150 more reasons refuse whole requests, and events are quarantined or kept. Metadata only, no part is rewritten.
ALTER TABLE ingestion_warnings_by_source {{on_cluster}}
    COMMENT COLUMN project_id 'Project; 0 for requests that were refused before their project was known',
    COMMENT COLUMN source 'Process or partition that counted; with /rule/ or /schema/ and the id of what it counts alone',
    COMMENT COLUMN effect 'What happened: dropped, replaced, cut, kept, quarantined or refused; follows from the reason',
    COMMENT COLUMN count 'Total of the minute so far, of this source: events, or requests where the whole request was refused'
