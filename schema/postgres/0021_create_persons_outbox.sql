-- Rows on their way to ClickHouse, written in the transaction of the changes and deleted once they are stored there.
-- Empty but for the last second, or for as long as ClickHouse is unavailable.
CREATE TABLE persons_outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Table of ClickHouse.
  target text NOT NULL,
  -- One JSON object a line, compressed by zstd: an outage of ClickHouse is waited out here.
  rows bytea STORAGE EXTERNAL NOT NULL,
  row_count integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Why ClickHouse will never take these rows; such rows are left alone.
  refused text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
