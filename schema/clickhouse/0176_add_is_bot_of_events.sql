-- Whether the visitor is an automated browser by its own account, for analysts to filter. Nearly always false, so it costs nothing on
-- disk; a frame leaves it out when no event of it is of a bot. Stored events before this version say false.
ALTER TABLE events {{on_cluster}}
    ADD COLUMN IF NOT EXISTS is_bot Bool DEFAULT false COMMENT 'The user agent says that it is a crawler, a monitor or another program; false when it is unknown' CODEC(ZSTD(1))
