-- Counts of whole days. A day's count never shrinks: a log that lost its oldest rows says nothing about them.
INSERT INTO query_usage AS known (project_id, what, name, day, queries)
SELECT found."projectId", found.what, found.name, found.day, found.queries
FROM jsonb_to_recordset($1::text::jsonb) AS found ("projectId" integer, what text, name text, day date, queries bigint)
JOIN projects ON projects.id = found."projectId"
ON CONFLICT (project_id, what, name, day) DO UPDATE SET queries = excluded.queries
WHERE known.queries < excluded.queries
