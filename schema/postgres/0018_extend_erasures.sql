-- Erasures by a filter of events, anonymised persons, and merges that stay undone.
ALTER TABLE event_removals DROP CONSTRAINT event_removals_kind_check;
ALTER TABLE event_removals ADD CHECK (kind IN ('person', 'days', 'month', 'filter'));

-- Of an erasure by filter: which events, with salted hashes in place of values (schema/wire/erased-ids.ts).
ALTER TABLE erasures ADD COLUMN filter jsonb;
-- Of anonymised persons: names of the properties that were removed; NULL: the persons were erased.
ALTER TABLE erasures ADD COLUMN removed_properties text[];

ALTER TABLE person_deletions
  -- As of the erasure, with its salt.
  ADD COLUMN filter jsonb,
  -- {"ids": {"<distinct id>": "<random id>"}, "removed": ["<property>"]}, until everything on its way has arrived.
  ADD COLUMN anonymised jsonb,
  -- Persons whose exported rows changed, besides `person_uuids`.
  ADD COLUMN revised_uuids uuid[] NOT NULL DEFAULT '{}';

-- When a merge was last undone; NULL: never, so that nobody need look for undone merges.
ALTER TABLE persons_projects ADD COLUMN undone_at timestamptz;
UPDATE persons_projects SET undone_at = now() WHERE project_id IN (
  SELECT project_id FROM person_repairs WHERE kind = 'undo' AND done_at IS NOT NULL);
