-- What bounds the definitions of a project, and lets one project's flood delay only its own
-- (docs/decisions/0039-names-are-bounded-by-project-and-day.md).

-- New definitions of a project on a day, which the limits compare. Three rows a project and day; a week is kept.
CREATE TABLE definition_days (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- Names of events, properties, or pairs of an event and a property.
  what text NOT NULL CHECK (what IN ('event', 'property', 'pair')),
  -- UTC, by ClickHouse's clock.
  day date NOT NULL,
  added integer NOT NULL,
  PRIMARY KEY (project_id, what, day)
);

-- Projects that are read in slices: each once a day, and those with more changes than one round reads. One row a
-- project that is not done.
CREATE TABLE roll_up_behind (
  project_id integer PRIMARY KEY REFERENCES projects ON DELETE CASCADE,
  -- Rows of ClickHouse with last_inserted from here on are read.
  since timestamptz NOT NULL,
  -- Everything is read once a day, and what is not seen any more is pruned then.
  is_sweep boolean NOT NULL,
  -- Which source is being read, and the key of the last row that was.
  source smallint NOT NULL DEFAULT 0,
  after_key jsonb,
  -- From where to read once more afterwards; NULL: not.
  again_since timestamptz,
  -- How fresh the definitions are meanwhile; NULL: as those of all projects.
  as_of timestamptz,
  complete_through timestamptz,
  served_at timestamptz,
  -- The next pass begins then.
  rests_until timestamptz
);

-- When the latest event with the pair was stored, by the clock of Postgres. Pairs of before get it by the next sweep;
-- one that has none after that was not seen for as long as definitions are kept.
ALTER TABLE event_properties ADD COLUMN last_arrived_at timestamptz;

-- The next roll-up reads everything.
DELETE FROM roll_up_state WHERE source = 'daily sweep';
