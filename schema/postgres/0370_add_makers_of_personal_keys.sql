-- Whoever has a leaked key may make others with it: they are revoked together with the key that made them. A key made by
-- rotation has two makers. Tens of rows; without an index, as only a revocation asks.
ALTER TABLE personal_api_keys ADD COLUMN made_by uuid[] NOT NULL DEFAULT '{}';
