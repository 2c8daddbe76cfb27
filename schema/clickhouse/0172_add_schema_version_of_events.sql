-- Which version of the schema of its event ingest checked an event by. Nearly always the same number in a block, so it costs nothing
-- on disk; a frame leaves it out when no event of it was checked.
ALTER TABLE events {{on_cluster}}
    ADD COLUMN IF NOT EXISTS schema_version Int32 DEFAULT 0 COMMENT 'Version of the schema that the properties meet; negative when they do not meet that version (mode observe); 0 when they were not checked' CODEC(ZSTD(1))
