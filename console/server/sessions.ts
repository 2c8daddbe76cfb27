import { createHash, randomBytes } from 'node:crypto'
import { HttpError } from '../../engines/errors.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { selectRoles } from '../../platform/directory/read-keys.ts'
import { hashPersonalKey } from '../../schema/key-text.ts'
import type { Membership } from '../../schema/roles.ts'

/** A session ends when it was not used for this long, in milliseconds. */
export const SESSION_IDLE_MS = 3_600_000

/** A session ends this long after login in any case, in milliseconds: a working day. */
export const SESSION_MAX_MS = 12 * 3_600_000

/** Precision of `last_used_at`, in milliseconds: few writes, and a session ends at most so much too early. */
const LAST_USED_RESOLUTION_MS = 60_000

export type Sessions = ReturnType<typeof createSessions>

export interface SessionUser {
  keyHash: null
  userId: number
  /** Null: an account without roles, whose sessions may do nothing. */
  roles: Membership[] | null
  /** Of the identity provider, or of a proxy; null of a user with a password. */
  issuer: string | null
  subject: string | null
  /** When it said last what the user may do; null: it does not. */
  claimsReadAt: Date | null
  /** Its tokens, encrypted with that of the session. */
  sealed: string | null
}

/** Sessions of the console, in Postgres, so that every API process knows them. Tokens are stored as hashes. */
export function createSessions ({ sql, now }: { sql: Sql, now: () => number }) {
  const alive = () => sql`
    s.last_used_at > ${new Date(now() - SESSION_IDLE_MS)} AND s.created_at > ${new Date(now() - SESSION_MAX_MS)}`

  async function begin (owner: Statement): Promise<string | null> {
    const token = mintToken()
    const begun = await sql`
      INSERT INTO console_sessions (token_hash, personal_api_key_id, user_id, created_at, last_used_at)
      SELECT ${hashToken(token)}, owner.key_id, owner.user_id, ${new Date(now())}, ${new Date(now())} FROM (${owner}) AS owner
      RETURNING token_hash`
    // Few sessions end by logging out; those that have ended would stay in the table.
    await sql`DELETE FROM console_sessions s WHERE NOT (${alive()})`
    return begun.length === 0 ? null : token
  }

  /**
   * Begins a session of a key, which was checked before, by its stored form (`hashPersonalKey`).
   *
   * @returns the token for the cookie; null when the key was deleted meanwhile.
   */
  const beginOfKey = async (keyHash: string): Promise<string | null> =>
    await begin(sql`SELECT id AS key_id, NULL::integer AS user_id FROM personal_api_keys WHERE secure_value = ${keyHash}`)

  return {
    begin: beginOfKey,
    /**
     * Begins a session of a user, who was checked before.
     *
     * @param passwordHash  Of the password that was checked: no session begins when another one was set meanwhile.
     */
    async beginOfUser (userId: number, passwordHash?: string): Promise<string> {
      // Locked: whoever changes the password or disables the user ends sessions, and must find this one.
      const token = await begin(sql`
        SELECT NULL::uuid AS key_id, id AS user_id FROM users
        WHERE id = ${userId} AND disabled_at IS NULL AND password_hash IS NOT DISTINCT FROM coalesce(${passwordHash ?? null}, password_hash) FOR SHARE`)
      if (token === null) throw new HttpError(401, 'authentication_error', 'authentication_failed', 'The account was disabled, or has another password now.')
      return token
    },
    /** Who has a session: a key, by its stored form, or a user; null when it has ended or never was. */
    async find (token: string): Promise<{ keyHash: string } | SessionUser | null> {
      const [found] = await sql<(SessionUser & { keyHash: string | null, lastUsedAt: Date })[]>`
        SELECT k.secure_value AS "keyHash", u.id AS "userId", s.last_used_at AS "lastUsedAt", ${selectRoles(sql)},
          u.oidc_issuer AS issuer, u.oidc_subject AS subject, s.claims_read_at AS "claimsReadAt", s.oidc_tokens AS sealed
        FROM console_sessions s LEFT JOIN personal_api_keys k ON k.id = s.personal_api_key_id LEFT JOIN users u ON u.id = s.user_id
        WHERE s.token_hash = ${hashToken(token)} AND ${alive()} AND u.disabled_at IS NULL`
      if (found === undefined) return null
      if (now() - found.lastUsedAt.getTime() > LAST_USED_RESOLUTION_MS) {
        await sql`UPDATE console_sessions SET last_used_at = ${new Date(now())} WHERE token_hash = ${hashToken(token)}`
      }
      return found.keyHash === null ? found : { keyHash: found.keyHash }
    },
    async end (token: string): Promise<void> {
      await sql`DELETE FROM console_sessions WHERE token_hash = ${hashToken(token)}`
    },
    /** Begins the session of a link that logs in once. @returns null for one that was used, is too old or never was. */
    async redeem (linkToken: string): Promise<string | null> {
      const [link] = await sql<{ keyHash: string, expiresAt: Date }[]>`
        DELETE FROM console_login_links l USING personal_api_keys k
        WHERE l.token_hash = ${hashToken(linkToken)} AND k.id = l.personal_api_key_id
        RETURNING k.secure_value AS "keyHash", l.expires_at AS "expiresAt"`
      if (link === undefined || link.expiresAt.getTime() <= now()) return null
      return await beginOfKey(link.keyHash)
    }
  }
}

/**
 * Makes the token of a link that logs in once, as the owner of a personal key.
 *
 * @param options.lifetimeMs  How long the link may be used, in milliseconds.
 */
export async function createLoginLink (
  sql: Sql, { personalKey, lifetimeMs, now }: { personalKey: string, lifetimeMs: number, now: number }
): Promise<string> {
  const token = mintToken()
  await sql`DELETE FROM console_login_links WHERE expires_at <= ${new Date(now)}`
  await sql`
    INSERT INTO console_login_links (token_hash, personal_api_key_id, expires_at)
    SELECT ${hashToken(token)}, id, ${new Date(now + lifetimeMs)}
    FROM personal_api_keys WHERE secure_value = ${hashPersonalKey(personalKey)}`
  return token
}

export function mintToken (): string {
  return randomBytes(32).toString('base64url')
}

/** Unsalted, as a token has too many random bits to be tried. */
export function hashToken (token: string): string {
  return createHash('sha256').update(token).digest('hex')
}
