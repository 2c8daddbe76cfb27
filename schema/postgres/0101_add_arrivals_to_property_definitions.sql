-- As of event definitions: deleted ones stay as rows that no answer shows.
ALTER TABLE property_definitions
  -- Events that carried the property, over all time, when the roll-up last looked.
  ADD COLUMN counted_events bigint NOT NULL DEFAULT 0,
  -- When the latest of them was stored in ClickHouse, by the clock of Postgres.
  ADD COLUMN last_arrived_at timestamptz,
  ADD COLUMN deleted_at timestamptz,
  -- When a person gave it this name; NULL once an event has carried the property after that. Its type stays until then.
  ADD COLUMN renamed_at timestamptz,
  -- When a person wrote the value that is shown; NULL while it is a computed one.
  ADD COLUMN query_usage_written_at timestamptz;

CREATE INDEX property_definitions_written ON property_definitions
  (greatest(deleted_at, renamed_at, query_usage_written_at))
  WHERE greatest(deleted_at, renamed_at, query_usage_written_at) IS NOT NULL;
