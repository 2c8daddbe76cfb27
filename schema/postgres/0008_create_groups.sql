-- Group types of a project, numbered by order of appearance; not limited to five.
CREATE TABLE group_types (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  group_type text NOT NULL,
  group_type_index integer NOT NULL CHECK (group_type_index >= 0),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project_id, group_type),
  UNIQUE (project_id, group_type_index)
);

CREATE TABLE groups (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  group_type_index integer NOT NULL,
  group_key text NOT NULL,
  properties jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now(),
  version bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (project_id, group_type_index, group_key)
);
