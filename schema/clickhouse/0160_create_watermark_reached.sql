-- How far everything acknowledged is known to be stored: one row, written again several times a second while it moves.
-- Expected size: one row, and the few that are not merged yet. A maximum, so that it never goes back, whichever process
-- writes in which order.
-- ORDER BY: the one row. No TTL: a moment that is complete stays complete.
CREATE TABLE IF NOT EXISTS watermark_reached {{on_cluster}}
(
    id UInt8 COMMENT 'Always 0',
    complete_through SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Moment of receipt before which everything acknowledged is stored; UTC',
    state SimpleAggregateFunction(max, Tuple(updated_at DateTime64(3, 'UTC'), held_by String)) COMMENT 'When it was written last, and what it waited for'
)
ENGINE = {{replicated}}AggregatingMergeTree
ORDER BY id
COMMENT 'The watermark, partly merged; query watermarks'
