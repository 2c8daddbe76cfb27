-- In which insert a row came: receipts say partition, stream sequences and ingest processes from it. The writer names all of it in
-- the token by which ClickHouse recognises a repeated insert, so the value is there already, the same for all rows of an insert.
-- Expected size: one dictionary index a row, and one entry of some 60 characters an insert. Rows from before, and of inserts
-- without a token, have an empty text.
ALTER TABLE events {{on_cluster}} ADD COLUMN IF NOT EXISTS insert_token LowCardinality(String) DEFAULT getSetting('insert_deduplication_token') COMMENT 'Insert that brought the row: stream, partition, stream sequences of its messages, ingest processes that received them; empty for rows from before'
