-- As in 0370, of properties.
ALTER TABLE event_property_counts {{on_cluster}}
    ADD COLUMN IF NOT EXISTS first_seen SimpleAggregateFunction(min, DateTime64(3, 'UTC')) DEFAULT last_seen COMMENT 'Earliest event timestamp'
