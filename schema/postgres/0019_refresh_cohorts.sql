-- A number of a question whose persons are the members, as {definition, cell, place}: the cell as asked for and as compiled; NULL: filters, or a list.
ALTER TABLE cohorts ADD COLUMN question jsonb;

-- When somebody last asked to find the members anew.
ALTER TABLE cohorts ADD COLUMN refresh_requested_at timestamptz;

-- What the pipeline found when it looked for the members of a cohort. One row a cohort.
CREATE TABLE cohort_refreshes (
  cohort_id integer PRIMARY KEY REFERENCES cohorts ON DELETE CASCADE,
  -- Of the members that are valid; NULL: never found.
  refreshed_at timestamptz,
  people bigint,
  -- How long it took, in milliseconds.
  took integer NOT NULL DEFAULT 0,
  tried_at timestamptz NOT NULL,
  -- Why the last try failed; empty: it did not.
  error text NOT NULL DEFAULT ''
);

-- Members of cohorts that flags look up: those of behavior, and of a question. No references to persons: hundreds of
-- thousands are inserted at a time, and each reference would lock its person. Who is deleted is deleted here by the API.
CREATE TABLE cohort_people (
  cohort_id integer NOT NULL,
  person uuid NOT NULL,
  PRIMARY KEY (cohort_id, person)
);
