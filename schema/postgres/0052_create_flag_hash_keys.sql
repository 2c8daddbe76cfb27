-- The identifier that a flag with experience continuity hashes for somebody, written when the anonymous user was
-- identified. Kept by distinct id and not by person: SDKs ask for flags in the moment of $identify, when the person
-- does not exist yet, and a merge that moves distinct ids carries these rows along without touching them.
-- Of several rows of a person's distinct ids the oldest counts. Up to one row per identified user and such flag.
CREATE TABLE flag_hash_keys (
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  distinct_id text NOT NULL,
  feature_flag_key text NOT NULL,
  hash_key text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project_id, distinct_id, feature_flag_key)
);
