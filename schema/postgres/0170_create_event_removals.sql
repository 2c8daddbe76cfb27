-- Removals of events that were begun and not yet completed, so that the books count each removed event once.
-- A removal takes events inserted before `until_ms`: they are counted in the ledger first, and removed then. Whoever finds one
-- here goes on with exactly these events. Expected size: a few rows, for seconds.
CREATE TABLE event_removals (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  subject text NOT NULL UNIQUE,
  kind text NOT NULL CHECK (kind IN ('person', 'days', 'month')),
  params jsonb NOT NULL,
  until_ms bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
