-- How far each task that runs at closed windows has come (exports, alerts, reports). One row a task, written a few times a
-- window.
CREATE TABLE window_tasks (
  -- Kind and id of what it belongs to, such as export:3.
  subject text PRIMARY KEY,
  -- End of the last window that was done: the next one begins here.
  done_through timestamptz NOT NULL,
  -- The pipeline process that runs the next window, while its lease lasts.
  owner text NOT NULL DEFAULT '',
  leased_until timestamptz NOT NULL DEFAULT '-infinity',
  -- Failures since the last success, when it is tried again, and the last error; empty without one.
  failures integer NOT NULL DEFAULT 0,
  retry_at timestamptz NOT NULL DEFAULT '-infinity',
  error text NOT NULL DEFAULT '',
  updated_at timestamptz NOT NULL DEFAULT now()
);
