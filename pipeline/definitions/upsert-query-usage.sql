-- $1: counts of whole days, as JSON. $2: how far ClickHouse's clock is ahead, in milliseconds.
-- A day's count never shrinks: a log that lost its oldest rows says nothing about them.
INSERT INTO query_usage AS known (project_id, what, name, day, queries, last_query_at)
SELECT
  found."projectId", found.what, found.name, found.day, found.queries,
  to_timestamp(found."lastAtSeconds") - $2::bigint * interval '1 millisecond'
FROM jsonb_to_recordset($1::text::jsonb) AS found
  ("projectId" integer, what text, name text, day date, queries bigint, "lastAtSeconds" bigint)
JOIN projects ON projects.id = found."projectId"
ON CONFLICT (project_id, what, name, day) DO UPDATE SET
  queries = excluded.queries, last_query_at = greatest(known.last_query_at, excluded.last_query_at)
WHERE known.queries < excluded.queries
