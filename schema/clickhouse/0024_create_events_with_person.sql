-- Every event with the person it belongs to now: the one documented way to follow merges, for past events too.
-- A view rather than a dictionary: exact at once, and no login has to be written into it (docs/persons.md has the cost).
-- The join names project_id, so that a filter on the project also bounds what is read from person_overrides.
CREATE VIEW IF NOT EXISTS events_with_person {{on_cluster}} AS
SELECT
    event.* REPLACE (coalesce(nullIf(override.person_id, toUUID('00000000-0000-0000-0000-000000000000')), event.person_id) AS person_id)
FROM events AS event
ANY LEFT JOIN
(
    SELECT project_id, old_person_id, person_id
    FROM person_overrides FINAL
) AS override ON event.project_id = override.project_id AND event.person_id = override.old_person_id
COMMENT 'Events, with person_id following merges'
