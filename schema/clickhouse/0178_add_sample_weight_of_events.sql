-- How many events a row stands for, where a rule stores a share of them only. Nearly always 1 in a whole block, so it costs nothing
-- on disk; a frame leaves it out when no event of it was sampled.
ALTER TABLE events {{on_cluster}}
    ADD COLUMN IF NOT EXISTS sample_weight Float64 DEFAULT 1 COMMENT 'How many events this one stands for: more than 1 where a rule stores a share of them; sum it to count' CODEC(ZSTD(1))
