-- A written query_usage_30_day stays until a query names the definition after it.
ALTER TABLE query_usage
  -- When the latest query of the day that named it ended, by the clock of Postgres, to the second.
  ADD COLUMN last_query_at timestamptz;
