-- As write-query-usage-of-events.sql. A group property counts for each group type that has one of the name: queries name no type.
UPDATE property_definitions AS known SET query_usage_30_day = counted.queries, query_usage_written_at = NULL
FROM (
  SELECT definition.id, coalesce(sum(usage.queries), 0) AS queries, max(usage.last_query_at) AS last_query_at
  FROM property_definitions AS definition
  LEFT JOIN query_usage AS usage ON usage.project_id = definition.project_id
    AND usage.what = definition.type || '_property' AND usage.name = definition.name
    AND usage.day > (now() AT TIME ZONE 'UTC')::date - 30
  GROUP BY definition.id
) AS counted
WHERE known.id = counted.id
  AND CASE
    WHEN known.query_usage_written_at IS NULL THEN known.query_usage_30_day <> counted.queries
    ELSE counted.last_query_at > date_trunc('second', known.query_usage_written_at)
  END
