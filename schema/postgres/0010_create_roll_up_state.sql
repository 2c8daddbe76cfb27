-- How far the definitions roll-up has read. One row per source; the roll-up writes absolute values, so reading
-- something twice is harmless and reading it late heals by itself.
CREATE TABLE roll_up_state (
  source text PRIMARY KEY,
  -- Rows of ClickHouse with last_inserted up to here were read.
  read_up_to timestamptz NOT NULL
);
