-- The commit that migrated the databases last, for messages about versions. One row a version; empty: not known.
ALTER TABLE schema_versions ADD COLUMN commit text NOT NULL DEFAULT '';
