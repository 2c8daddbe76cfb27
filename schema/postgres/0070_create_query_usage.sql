-- How often SELECTs of analysts named an event or a property, by day; counted from ClickHouse's query log.
-- One row per name and day on which it was named; 31 days are kept.
CREATE TABLE query_usage (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- 'event', or the kind of property: 'event_property', 'person_property', 'group_property'.
  what text NOT NULL CHECK (what IN ('event', 'event_property', 'person_property', 'group_property')),
  name text NOT NULL,
  -- UTC.
  day date NOT NULL,
  queries bigint NOT NULL,
  PRIMARY KEY (project_id, what, name, day)
);

CREATE INDEX query_usage_day ON query_usage (day);
