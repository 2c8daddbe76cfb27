-- Versions of Millrace that have migrated the databases: an older program that is started on them says which version it
-- needs. One row for each version, so some dozen in years.
CREATE TABLE schema_versions (
  version text PRIMARY KEY,
  -- Programs older than this refuse to start.
  oldest_compatible text NOT NULL,
  -- SHA-256, by path, of the files that are applied by hand where each tier has a login of its own.
  files jsonb NOT NULL,
  migrated_at timestamptz NOT NULL DEFAULT now()
);
