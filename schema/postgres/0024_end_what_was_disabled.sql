-- Links and SQL of alerts rested while a user was disabled; from now on disabling ends them for good.
DELETE FROM board_links AS l USING users AS u WHERE u.disabled_at IS NOT NULL AND u.id = ANY (l.made_by_users || l.created_by);
UPDATE alerts AS a SET may_run_sql = false FROM users AS u WHERE a.may_run_sql AND u.disabled_at IS NOT NULL AND u.id = ANY (a.made_by_users);

-- Replayed dead letters are compared with splits as well as with undone merges.
UPDATE persons_projects SET undone_at = now() WHERE undone_at IS NULL AND project_id IN (
  SELECT project_id FROM person_repairs WHERE done_at IS NOT NULL);
