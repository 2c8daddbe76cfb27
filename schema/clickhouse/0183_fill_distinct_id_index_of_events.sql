-- Builds the filter for parts from before, in the background. Until a part has it, look-ups read its column of distinct ids.
ALTER TABLE events {{on_cluster}} MATERIALIZE INDEX distinct_id_index
