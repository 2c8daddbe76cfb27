-- People who log in, beside accounts that only own keys. Tens to thousands of rows.
ALTER TABLE users
  -- True: the user and all keys of the user may do what the roles allow; false: a key may do what it says.
  ADD COLUMN has_roles boolean NOT NULL DEFAULT false,
  -- 'argon2id$memory$passes$salt$hash'.
  ADD COLUMN password_hash text,
  ADD COLUMN password_set_at timestamptz,
  -- Of the identity provider: both together name the person, the address does not.
  ADD COLUMN oidc_issuer text,
  ADD COLUMN oidc_subject text,
  ADD COLUMN disabled_at timestamptz,
  ADD COLUMN last_login_at timestamptz,
  ADD UNIQUE (oidc_issuer, oidc_subject);

-- What a user may do, and where: schema/roles.ts has the scopes of each role.
CREATE TABLE memberships (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  user_id integer NOT NULL REFERENCES users ON DELETE CASCADE,
  -- NULL: every project, and the installation.
  project_id integer REFERENCES projects ON DELETE CASCADE,
  role text NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
  -- Of a viewer: others see persons in any case.
  sees_persons boolean NOT NULL DEFAULT false,
  -- Follows from a claim of the identity provider, and is replaced by what that says next.
  is_from_claim boolean NOT NULL DEFAULT false,
  UNIQUE NULLS NOT DISTINCT (user_id, project_id, is_from_claim)
);

-- Links with which a person sets a password, or is bound to an account of the identity provider. One of each user.
CREATE TABLE invitations (
  user_id integer PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  token_hash text NOT NULL UNIQUE,
  expires_at timestamptz NOT NULL
);

-- Attempts to log in, by account and by address, for their limits. Those of an earlier quarter of an hour are removed.
CREATE UNLOGGED TABLE login_attempts (
  -- Hash of what is counted: addresses of mail stay out of the table.
  subject text PRIMARY KEY,
  count integer NOT NULL,
  since timestamptz NOT NULL
);

-- A session is that of a key or that of a user.
ALTER TABLE console_sessions
  ALTER COLUMN personal_api_key_id DROP NOT NULL,
  ADD COLUMN user_id integer REFERENCES users ON DELETE CASCADE,
  -- Tokens of the identity provider, encrypted with the token of the cookie, which is not stored.
  ADD COLUMN oidc_tokens text,
  -- When the claims were read.
  ADD COLUMN claims_read_at timestamptz,
  ADD CHECK (num_nonnulls(personal_api_key_id, user_id) = 1);

CREATE TRIGGER notify_membership_changed AFTER INSERT OR UPDATE OR DELETE ON memberships
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();

CREATE TRIGGER notify_user_changed AFTER UPDATE OF has_roles ON users
  FOR EACH STATEMENT EXECUTE FUNCTION notify_keys_changed();
