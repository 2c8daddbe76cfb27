-- The history of each feature flag: what it was before and after every change, and who made it. Written in the
-- transaction of the change, which also deletes the oldest ones of the flag: 500 a flag at most, and 10 MB. Read by flag,
-- newest first. Deleted flags keep theirs. Flags from before this table begin with their next change.
CREATE TABLE feature_flag_changes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  flag_id integer NOT NULL REFERENCES feature_flags ON DELETE CASCADE,
  -- Of the flag, after the change.
  version integer NOT NULL,
  -- The fields that can be written; NULL before: the flag was created.
  before jsonb,
  after jsonb NOT NULL,
  user_id integer REFERENCES users ON DELETE SET NULL,
  -- Of the personal key, as it was called then.
  key_label text NOT NULL DEFAULT '',
  -- Name of the experiment whose creation, launch or change did it; NULL: somebody changed the flag itself.
  experiment text,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (flag_id, version)
);
