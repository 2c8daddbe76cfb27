-- When an event was first seen, also when older ones are imported later. Rows from before have it from their latest event, which is
-- no earlier; definitions keep what they know already.
ALTER TABLE event_volumes_by_day {{on_cluster}}
    ADD COLUMN IF NOT EXISTS first_seen SimpleAggregateFunction(min, DateTime64(3, 'UTC')) DEFAULT last_seen COMMENT 'Earliest event timestamp'
