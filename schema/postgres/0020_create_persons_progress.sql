-- How far each partition of PERSONS is applied: written in the transaction of the changes themselves, so a redelivered
-- message is recognised and a killed process loses and doubles nothing. One row a partition.
CREATE TABLE persons_progress (
  partition integer PRIMARY KEY,
  -- Creation time of the stream as the server reports it: a re-created stream counts from 1 again.
  stream_created text NOT NULL,
  last_sequence bigint NOT NULL,
  -- When the stream stored that message, in microseconds: tells a new message from an applied one when a stream lost
  -- its newest messages in a power cut and gives their numbers out again.
  last_published_us bigint NOT NULL
);

-- One row a project. Anyone who changes persons or groups of a project updates its row first, which makes them take
-- turns, and stamps all its changes with the version found there, which orders the copies in ClickHouse.
CREATE TABLE persons_projects (
  project_id integer PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
  -- Microseconds since 1970, or the last one plus one when the clock went back.
  version bigint NOT NULL
) WITH (fillfactor = 50);

-- Fingerprints of the updates applied lately, one row a transaction, so that an update that an SDK sends again changes
-- nothing, also after a change of owner. Rows of the last hour.
CREATE TABLE persons_recent_updates (
  partition integer NOT NULL,
  id bigint GENERATED ALWAYS AS IDENTITY,
  applied_at timestamptz NOT NULL DEFAULT now(),
  -- 8 bytes an update, in order.
  fingerprints bytea STORAGE EXTERNAL NOT NULL,
  PRIMARY KEY (partition, id)
);

-- What could not be done as an event asked, by day: merges with illegal ids and the like.
CREATE TABLE persons_warnings (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  day date NOT NULL,
  reason text NOT NULL,
  occurrences bigint NOT NULL,
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  -- The latest one: uuid of the event and the ids.
  example jsonb NOT NULL,
  PRIMARY KEY (project_id, day, reason)
);
