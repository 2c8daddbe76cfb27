-- Event names a project has seen; volumes and last_seen_at are rolled up from ClickHouse every few seconds.
-- Hundreds to ten thousands of rows a project. Manual changes win until the next event of the name
-- (docs/decisions/0013). A deleted definition stays as a row that no answer shows, and that remembers when it was deleted.
CREATE TABLE event_definitions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- At most 200 characters, as ingest cuts them.
  name text NOT NULL,
  volume_30_day bigint NOT NULL DEFAULT 0,
  query_usage_30_day bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz,
  last_updated_at timestamptz NOT NULL DEFAULT now(),
  tags text[] NOT NULL DEFAULT '{}',
  -- When the roll-up last computed volume_30_day.
  last_calculated_at timestamptz,
  created_by integer REFERENCES users ON DELETE SET NULL,
  post_to_slack boolean NOT NULL DEFAULT false,
  -- Events of the name over all time, when the roll-up last looked: a larger number means that some have arrived.
  counted_events bigint NOT NULL DEFAULT 0,
  -- When the latest of them was stored in ClickHouse, by the clock of Postgres.
  last_arrived_at timestamptz,
  deleted_at timestamptz,
  -- When a person wrote the value that is shown; NULL while it is a computed one. A rename writes all of them.
  volume_written_at timestamptz,
  last_seen_written_at timestamptz,
  query_usage_written_at timestamptz,
  -- Written by people: kept until somebody changes it or deletes the definition. No index: a project has at most ten
  -- thousands of definitions, and a search reads all of them anyway.
  description text NOT NULL DEFAULT '' CHECK (length(description) <= 3000),
  owner_id integer REFERENCES users ON DELETE SET NULL,
  verified boolean NOT NULL DEFAULT false,
  hidden boolean NOT NULL DEFAULT false,
  UNIQUE (project_id, name)
);

-- Finds the times that a clock which went back has left in the future.
CREATE INDEX event_definitions_written ON event_definitions
  (greatest(deleted_at, volume_written_at, last_seen_written_at, query_usage_written_at))
  WHERE greatest(deleted_at, volume_written_at, last_seen_written_at, query_usage_written_at) IS NOT NULL;

-- Properties a project has seen, of events, persons and groups, with the inferred type.
-- Hundreds to ten thousands of rows a project. Deleted ones stay as rows that no answer shows.
CREATE TABLE property_definitions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  name text NOT NULL,
  type text NOT NULL CHECK (type IN ('event', 'person', 'group')),
  -- Name of the group type for type 'group', else empty.
  group_type text NOT NULL DEFAULT '',
  -- NULL while only null, arrays or objects were seen.
  property_type text CHECK (property_type IN ('DateTime', 'String', 'Numeric', 'Boolean')),
  -- A type that a person set is never overwritten by inference.
  property_type_is_manual boolean NOT NULL DEFAULT false,
  query_usage_30_day bigint NOT NULL DEFAULT 0,
  tags text[] NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz,
  -- Events that carried the property, over all time, when the roll-up last looked.
  counted_events bigint NOT NULL DEFAULT 0,
  -- When the latest of them was stored in ClickHouse, by the clock of Postgres.
  last_arrived_at timestamptz,
  deleted_at timestamptz,
  -- When a person gave it this name; NULL once an event has carried the property after that. Its type stays until then.
  renamed_at timestamptz,
  -- When a person wrote the value that is shown; NULL while it is a computed one.
  query_usage_written_at timestamptz,
  description text NOT NULL DEFAULT '' CHECK (length(description) <= 3000),
  owner_id integer REFERENCES users ON DELETE SET NULL,
  verified boolean NOT NULL DEFAULT false,
  hidden boolean NOT NULL DEFAULT false,
  UNIQUE (project_id, type, group_type, name)
);

CREATE INDEX property_definitions_written ON property_definitions
  (greatest(deleted_at, renamed_at, query_usage_written_at))
  WHERE greatest(deleted_at, renamed_at, query_usage_written_at) IS NOT NULL;

-- Which event properties occur on which events.
CREATE TABLE event_properties (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  event text NOT NULL,
  property text NOT NULL,
  last_seen_at timestamptz,
  -- When the latest event with the pair was stored, by the clock of Postgres; NULL: not since the last sweep. One that was
  -- not seen for as long as definitions are kept is pruned.
  last_arrived_at timestamptz,
  PRIMARY KEY (project_id, event, property)
);

CREATE INDEX event_properties_property ON event_properties (project_id, property);

-- How far the definitions roll-up has read. One row per source; the roll-up writes absolute values, so reading
-- something twice is harmless and reading it late heals by itself.
CREATE TABLE roll_up_state (
  source text PRIMARY KEY,
  -- Rows of ClickHouse with last_inserted up to here were read.
  read_up_to timestamptz NOT NULL
);

-- New definitions of a project on a day, which the limits compare
-- (docs/decisions/0039-new-names-are-limited-per-project-and-day.md). Three rows a project and day; a week is kept.
CREATE TABLE definition_days (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- Names of events, properties, or pairs of an event and a property.
  what text NOT NULL CHECK (what IN ('event', 'property', 'pair')),
  -- UTC, by ClickHouse's clock.
  day date NOT NULL,
  added integer NOT NULL,
  PRIMARY KEY (project_id, what, day)
);

-- Projects that are read in slices, so that one project's flood delays only its own: each once a day, and those with more changes than one round reads. One row a
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
