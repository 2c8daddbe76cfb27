-- Pictures of boards that were sent. Mail has them inside; Slack's servers read them by a key, for 30 days.
CREATE TABLE report_pictures (
  key_hash text PRIMARY KEY,
  alert_id integer NOT NULL REFERENCES alerts ON DELETE CASCADE,
  -- Of a saved query, which only those see who may run SQL.
  shows_sql boolean NOT NULL,
  png bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX report_pictures_alert_id ON report_pictures (alert_id, created_at);
