-- Definitions that no query names any more go back to 0. Skips rows that would not change. A value that a user wrote
-- stays until a query names the definition in a later second: the query log has whole seconds.
UPDATE event_definitions AS known SET query_usage_30_day = counted.queries, query_usage_written_at = NULL
FROM (
  SELECT definition.id, coalesce(sum(usage.queries), 0) AS queries, max(usage.last_query_at) AS last_query_at
  FROM event_definitions AS definition
  LEFT JOIN query_usage AS usage ON usage.project_id = definition.project_id AND usage.what = 'event'
    AND usage.name = definition.name AND usage.day > (now() AT TIME ZONE 'UTC')::date - 30
  GROUP BY definition.id
) AS counted
WHERE known.id = counted.id
  AND CASE
    WHEN known.query_usage_written_at IS NULL THEN known.query_usage_30_day <> counted.queries
    ELSE counted.last_query_at > date_trunc('second', known.query_usage_written_at)
  END
