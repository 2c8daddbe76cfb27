-- Reads one column of the parts that have no such index yet; ClickHouse does it in the background.
ALTER TABLE events {{on_cluster}} MATERIALIZE INDEX received_at_index
