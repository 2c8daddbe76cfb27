-- Properties a project has seen, of events, persons and groups, with the inferred type.
-- Hundreds to ten thousands of rows a project.
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
  UNIQUE (project_id, type, group_type, name)
);

-- Which event properties occur on which events.
CREATE TABLE event_properties (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  event text NOT NULL,
  property text NOT NULL,
  last_seen_at timestamptz,
  PRIMARY KEY (project_id, event, property)
);

CREATE INDEX event_properties_property ON event_properties (project_id, property);
