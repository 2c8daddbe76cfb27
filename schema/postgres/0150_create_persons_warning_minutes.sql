-- Running totals of what the persons partitions refused, by minute, for ingestion_warnings of ClickHouse. They are
-- changed in the transaction that refuses, and so count exactly once. Kept for a day: at most some hundred rows.
CREATE TABLE persons_warning_minutes (
  project_id integer NOT NULL,
  partition integer NOT NULL,
  minute timestamptz NOT NULL,
  reason text NOT NULL,
  occurrences bigint NOT NULL,
  -- The first cases, as the table of ClickHouse takes them.
  samples jsonb NOT NULL,
  PRIMARY KEY (partition, project_id, minute, reason)
);
