-- A schema or rule that is created where one was deleted has a history of its own: the versions from this one on. Those
-- before stay, because `schema_version` of events names them. A row of at most 500 and 200 a project each.
ALTER TABLE event_schemas
  ADD COLUMN first_version integer NOT NULL DEFAULT 1,
  ADD CHECK (first_version <= version AND (active_version IS NULL OR active_version >= first_version));

ALTER TABLE event_rules
  ADD COLUMN first_version integer NOT NULL DEFAULT 1,
  ADD CHECK (first_version <= version AND (active_version IS NULL OR active_version >= first_version));
