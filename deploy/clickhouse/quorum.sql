-- For a cluster: an event counts as stored when most replicas of its shard have it, of two both. Run by hand as an
-- administrator, after the logins. While too few replicas are there, events wait in the stream; without it they are stored,
-- and what one replica confirmed and no other had copied yet is lost when its disk is.
-- To take it back: ALTER USER millrace_pipeline SETTINGS NONE.
ALTER USER millrace_pipeline SETTINGS insert_quorum = 'auto', insert_quorum_parallel = 1, insert_quorum_timeout = 60000;
