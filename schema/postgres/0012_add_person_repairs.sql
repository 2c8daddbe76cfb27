-- Repairs of persons, in order: merges that were undone, and persons that were split. Merges themselves are events; persons
-- are computed from both. A row is never changed after `done_at`. A row a repair.
CREATE TABLE person_repairs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  -- The person as it was when the repair was requested.
  person_uuid uuid NOT NULL,
  -- undo: the merge of `event_uuid` never was. split: `parts` became persons of their own.
  kind text NOT NULL CHECK (kind IN ('undo', 'split')),
  event_uuid uuid,
  -- Lists of distinct ids, each of which leaves the person as one.
  parts jsonb,
  -- All distinct ids that the repair names: of the merge, or of the parts.
  distinct_ids text[] NOT NULL,
  requested_at timestamptz NOT NULL DEFAULT now(),
  -- When it was carried out: a split concerns the merges received before.
  done_at timestamptz,
  -- The persons that it left, and why it could not be carried out.
  person_uuids uuid[],
  error text
);

CREATE INDEX person_repairs_distinct_ids ON person_repairs USING gin (distinct_ids);
CREATE INDEX person_repairs_open ON person_repairs (id) WHERE done_at IS NULL AND error IS NULL;
