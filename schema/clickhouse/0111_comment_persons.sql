-- An inner join with these tables loses events: not everybody who sends events has a row in them.
ALTER TABLE persons {{on_cluster}}
    MODIFY COMMENT 'Persons as they are now; read with FINAL. Who was seen on plain events only has no row: LEFT JOIN it to events_with_person'
