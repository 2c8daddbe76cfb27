-- An inner join with events loses those of groups without properties.
ALTER TABLE groups {{on_cluster}}
    MODIFY COMMENT 'Groups that sent $groupidentify, as they are now; read with FINAL. Others have no row: LEFT JOIN it to events'
