-- What somebody should do although the backup was made, such as giving an older one, which could not be looked at, to
-- the user of the service. A constant default: nothing is rewritten.
ALTER TABLE backups ADD COLUMN warning text NOT NULL DEFAULT '';
