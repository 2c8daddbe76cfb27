-- Which SDKs may ask for a flag, and what persons are counted by.
ALTER TABLE feature_flags
  ADD COLUMN evaluation_runtime text NOT NULL DEFAULT 'all' CHECK (evaluation_runtime IN ('all', 'server', 'client')),
  ADD COLUMN bucketing_identifier text NOT NULL DEFAULT 'distinct_id'
    CHECK (bucketing_identifier IN ('distinct_id', 'device_id'));
