-- What people say about events and properties: kept until somebody changes it or deletes the definition. No index:
-- a project has at most ten thousands of definitions, and a search reads all of them anyway.
ALTER TABLE event_definitions
  ADD COLUMN description text NOT NULL DEFAULT '' CHECK (length(description) <= 3000),
  ADD COLUMN owner_id integer REFERENCES users ON DELETE SET NULL,
  ADD COLUMN verified boolean NOT NULL DEFAULT false,
  ADD COLUMN hidden boolean NOT NULL DEFAULT false;

ALTER TABLE property_definitions
  ADD COLUMN description text NOT NULL DEFAULT '' CHECK (length(description) <= 3000),
  ADD COLUMN owner_id integer REFERENCES users ON DELETE SET NULL,
  ADD COLUMN verified boolean NOT NULL DEFAULT false,
  ADD COLUMN hidden boolean NOT NULL DEFAULT false;
