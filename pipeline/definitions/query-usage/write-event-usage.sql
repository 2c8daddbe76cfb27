-- Definitions that nobody names any more go back to 0; rows that would not change are not written.
UPDATE event_definitions AS known SET query_usage_30_day = counted.queries
FROM (
  SELECT definition.id, coalesce(sum(usage.queries), 0) AS queries
  FROM event_definitions AS definition
  LEFT JOIN query_usage AS usage ON usage.project_id = definition.project_id AND usage.what = 'event'
    AND usage.name = definition.name AND usage.day > (now() AT TIME ZONE 'UTC')::date - 30
  GROUP BY definition.id
) AS counted
WHERE known.id = counted.id AND known.query_usage_30_day <> counted.queries
