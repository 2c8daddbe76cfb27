-- The random salts by which ingest tells visitors without cookies apart, one a day. Four rows: those of the day before
-- yesterday to tomorrow, because days of visitors begin up to 14 h before those of UTC. Ingest makes them ahead and
-- deletes each 72 h after its day began; nobody can tell then whose hash an id was. Backups leave the table out.
CREATE TABLE cookieless_salts (
  day date PRIMARY KEY,
  salt bytea NOT NULL CHECK (length(salt) = 16)
);
