-- How long data is kept. A handful of rows; read by every pipeline process once an hour. No row: indefinitely.
CREATE TABLE retention (
  what text NOT NULL CHECK (what IN ('events', 'dead_letters')),
  -- NULL: of the whole deployment. A project's own row wins over it.
  project_id integer REFERENCES projects ON DELETE CASCADE CHECK (what = 'events' OR project_id IS NULL),
  -- Full days, counted by the timestamp of the event in UTC. NULL: indefinitely.
  days integer CHECK (days BETWEEN 1 AND 36500),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE NULLS NOT DISTINCT (what, project_id)
);
