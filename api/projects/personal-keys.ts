import { MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { KeyOwner } from '../../platform/directory/read-keys.ts'
import { hashPersonalKey, maskKey, mintKey } from '../../schema/key-text.ts'
import { toStoredEmail } from './users.ts'

export interface NewPersonalKey {
  email: string
  label: string
  /** Like `experiment:read`; `*` allows everything. */
  scopes: string[]
  projectIds: number[] | null
  expiresAt: Date | null
  key?: string | undefined
}

export interface CreatedPersonalKey {
  id: string
  /** The key in clear text, which is not stored. */
  key: string
}

/**
 * Creates a personal key and returns it once; only its hash is stored.
 *
 * @throws {MillraceError} `MILLRACE_USER_NOT_FOUND`.
 */
export async function createPersonalKey (sql: Sql, options: NewPersonalKey): Promise<CreatedPersonalKey> {
  const key = options.key ?? mintKey('phx_')
  const [row] = await sql<{ id: string }[]>`
    INSERT INTO personal_api_keys (user_id, label, secure_value, mask_value, scopes, project_ids, expires_at)
    SELECT id, ${options.label}, ${hashPersonalKey(key)}, ${maskKey(key)}, ${options.scopes}::text[],
      ${options.projectIds}::integer[], ${options.expiresAt}
    FROM users WHERE email = ${toStoredEmail(options.email)}
    RETURNING id`
  if (row === undefined) throw new MillraceError('MILLRACE_USER_NOT_FOUND', `there is no user ${options.email}`)
  return { id: row.id, key }
}

/** Precision of `last_used_at`: enough to find unused keys, and few enough writes. */
const LAST_USED_RESOLUTION_MS = 3_600_000

/**
 * Records that a personal key is in use. Never waits and never fails: no answer depends on it.
 *
 * @param use.owner  The object in the directory of keys; the time is updated there, too.
 * @param use.now    Epoch milliseconds.
 */
export function recordKeyUse (sql: Sql, { hash, owner, now }: { hash: string, owner: KeyOwner, now: number }): void {
  if (owner.lastUsedAt !== null && now - owner.lastUsedAt.getTime() < LAST_USED_RESOLUTION_MS) return
  owner.lastUsedAt = new Date(now)
  // Safe to ignore: the next use after the next read of the keys tries again.
  sql`UPDATE personal_api_keys SET last_used_at = ${owner.lastUsedAt} WHERE secure_value = ${hash}`.catch(() => {})
}
