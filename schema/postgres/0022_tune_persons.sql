-- Persons are updated in place all the time: room in each page keeps an update off the indexes, and vacuum must not
-- wait for a fifth of a large table.
ALTER TABLE persons SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE groups SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Deleting a merged person looks these up by person.
CREATE INDEX flag_hash_key_overrides_person_id ON flag_hash_key_overrides (person_id);
CREATE INDEX cohort_members_person_id ON cohort_members (person_id);
