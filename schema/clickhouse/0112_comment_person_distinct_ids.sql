-- An inner join with events loses those of distinct ids that were never in an update of a person.
ALTER TABLE person_distinct_ids {{on_cluster}}
    MODIFY COMMENT 'Distinct ids of persons as they are now; read with FINAL. An id seen on plain events only has no row'
