-- Users besides the owner whose rights limit a key: whoever made it, the owner of the key that made it, and so on.
ALTER TABLE personal_api_keys ADD COLUMN made_by_users integer[] NOT NULL DEFAULT '{}';
