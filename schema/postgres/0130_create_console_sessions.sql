-- Who is logged in to the console. The cookie has 256 random bits and is stored as its hash; the session may do what
-- its personal key may do at the moment of each request, and ends with the key.
CREATE TABLE console_sessions (
  token_hash text PRIMARY KEY,
  personal_api_key_id uuid NOT NULL REFERENCES personal_api_keys ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- To the minute.
  last_used_at timestamptz NOT NULL DEFAULT now()
);

-- Links that log in once, such as the one that a start of the embedded stack prints.
CREATE TABLE console_login_links (
  token_hash text PRIMARY KEY,
  personal_api_key_id uuid NOT NULL REFERENCES personal_api_keys ON DELETE CASCADE,
  expires_at timestamptz NOT NULL
);
