-- What a person did to a definition holds until an event of its name arrives after it (docs/decisions/0013). A deleted
-- definition stays as a row that no answer shows, and that remembers when it was deleted: one row a deleted name.
ALTER TABLE event_definitions
  -- Events of the name over all time, when the roll-up last looked: a larger number means that some have arrived.
  ADD COLUMN counted_events bigint NOT NULL DEFAULT 0,
  -- When the latest of them was stored in ClickHouse, by the clock of Postgres.
  ADD COLUMN last_arrived_at timestamptz,
  ADD COLUMN deleted_at timestamptz,
  -- When a person wrote the value that is shown; NULL while it is a computed one. A rename writes all of them.
  ADD COLUMN volume_written_at timestamptz,
  ADD COLUMN last_seen_written_at timestamptz,
  ADD COLUMN query_usage_written_at timestamptz;

-- Finds the times that a clock which went back has left in the future.
CREATE INDEX event_definitions_written ON event_definitions
  (greatest(deleted_at, volume_written_at, last_seen_written_at, query_usage_written_at))
  WHERE greatest(deleted_at, volume_written_at, last_seen_written_at, query_usage_written_at) IS NOT NULL;

-- The next roll-up reads everything, so that every definition knows its number of events.
DELETE FROM roll_up_state WHERE source = 'daily sweep';
