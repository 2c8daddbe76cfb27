-- A search for a part of an email or a name reads this column, some 50 bytes a person, instead of all properties. Not an
-- index of Postgres: there it would make every update of a person's properties write all indexes of the table.
ALTER TABLE persons {{on_cluster}} ADD COLUMN IF NOT EXISTS names String MATERIALIZED lowerUTF8(concat('\n', JSONExtractString(properties, 'email'), '\n', JSONExtractString(properties, 'name'), '\n', JSONExtractString(properties, 'username'), '\n')) COMMENT 'Email, name and username in lower case, a line each, for searches; not in SELECT *';

ALTER TABLE persons {{on_cluster}} MATERIALIZE COLUMN names;
