-- Persons that were deleted, and how far that has come: begun in the transaction that deletes the person here, carried
-- out in ClickHouse afterwards, by anyone who asked or, if that was interrupted, by a pipeline process.
-- Holds no distinct ids and no properties; kept as the record of what was done. A row a deletion.
CREATE TABLE person_deletions (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_id integer NOT NULL REFERENCES projects ON DELETE CASCADE,
  person_uuid uuid NOT NULL,
  -- The person's, and those computed from its distinct ids: events.person_id is one of them.
  person_uuids uuid[] NOT NULL,
  with_events boolean NOT NULL,
  requested_at timestamptz NOT NULL DEFAULT now(),
  -- Copies of the person up to this version are to go.
  version bigint NOT NULL,
  -- Rows of persons_outbox up to this one hold copies of it, perhaps on their way.
  outbox_id bigint NOT NULL,
  -- When ClickHouse was found to hold nothing of it any more.
  done_at timestamptz,
  -- When, after that, everything that was on its way when the deletion was requested had arrived and was deleted, too.
  swept_at timestamptz
);

CREATE INDEX person_deletions_open ON person_deletions (id) WHERE swept_at IS NULL;
