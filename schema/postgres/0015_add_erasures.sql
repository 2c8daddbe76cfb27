-- Erasures, as they were asked for: outlives the erased data, so that a restored backup, an import or a replay leaves it
-- out. Names nobody: of the distinct ids there are salted hashes. A row an erasure, also kept beside the backups.
CREATE TABLE erasures (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Without a reference: it outlives its project.
  project_id integer NOT NULL,
  -- The same for all erasures of an installation.
  salt text NOT NULL,
  -- SHA-256 of `<salt>:<project>:<distinct id>`, in hexadecimal digits.
  hashes text[] NOT NULL,
  -- Events that happened before are erased; later ones are new.
  requested_at timestamptz NOT NULL DEFAULT now(),
  deletion_id bigint REFERENCES person_deletions ON DELETE SET NULL,
  -- Where something was found, as [{"where", "count"}].
  found jsonb NOT NULL DEFAULT '[]'
);

CREATE INDEX erasures_project_id ON erasures (project_id);

-- Ingest leaves out events of erased ids.
CREATE TRIGGER notify_keys_changed AFTER INSERT OR DELETE ON erasures
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();

CREATE TRIGGER record_change AFTER INSERT OR UPDATE OR DELETE ON erasures FOR EACH ROW EXECUTE FUNCTION record_change('id');

-- Whether groups with that name go, too, and whether events that come back are deleted again.
ALTER TABLE person_deletions ADD COLUMN is_erasure boolean NOT NULL DEFAULT false;

-- Time of the last erasure; null without one, so that others need not look.
ALTER TABLE persons_projects ADD COLUMN erased_at timestamptz;
