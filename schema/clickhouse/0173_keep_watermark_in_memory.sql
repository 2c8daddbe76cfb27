-- How far everything acknowledged is known to be stored: a row written again up to five times a second while it moves.
-- Expected size: 64 rows at most. On one node they are in memory: a row costs a tenth of a part, and no flush. A server
-- that was restarted knows nothing until the pipeline says it again, a moment later. On a cluster the table is replicated
-- as before, because every replica has to know it.
-- No TTL, no ORDER BY in memory: the highest row is what holds.
{{create_in_memory}} watermark_reached {{on_cluster}}
(
    id UInt8 COMMENT 'Always 0',
    complete_through SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'Moment of receipt before which everything acknowledged is stored; UTC',
    state SimpleAggregateFunction(max, Tuple(updated_at DateTime64(3, 'UTC'), held_by String)) COMMENT 'When it was written last, and what it waited for'
)
ENGINE = {{in_memory}}
COMMENT 'The last rows of the watermark; query watermarks'
