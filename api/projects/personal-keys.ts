import { MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { KeyOwner } from '../../platform/directory/read-keys.ts'
import { isScope, SCOPE_OBJECTS } from '../../platform/scopes.ts'
import { hashPersonalKey, maskKey, mintKey } from '../../platform/directory/key-text.ts'
import { changeKeys, revokeWithMade } from './key-makers.ts'
import { toStoredEmail } from './users.ts'

export interface NewPersonalKey {
  email: string
  label: string
  /** Like `experiment:read`; `*` allows everything. */
  scopes: string[]
  /** Null: every project. */
  projectIds: number[] | null
  /** Null: never. */
  expiresAt: Date | null
  /** Default: a new random one. */
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
 * @throws {MillraceError} `MILLRACE_USER_NOT_FOUND`, `MILLRACE_PROJECT_NOT_FOUND`, `MILLRACE_SCOPE_INVALID`.
 */
export async function createPersonalKey (sql: Sql, options: NewPersonalKey): Promise<CreatedPersonalKey> {
  const unknown = options.scopes.find((scope) => !isScope(scope))
  if (unknown !== undefined || options.scopes.length === 0) {
    throw new MillraceError('MILLRACE_SCOPE_INVALID',
      `"${unknown ?? ''}" is not a scope: use *, or <object>:read or <object>:write with one of ${SCOPE_OBJECTS.join(', ')}`)
  }
  await refuseUnknownProjects(sql, options.projectIds)
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

async function refuseUnknownProjects (sql: Sql, ids: number[] | null): Promise<void> {
  if (ids === null) return
  const known = await sql<{ id: number }[]>`SELECT id FROM projects WHERE id = ANY(${ids}::integer[])`
  const unknown = ids.find((id) => !known.some((row) => row.id === id))
  if (unknown !== undefined) throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${unknown}`)
}

export interface ListedPersonalKey {
  id: string
  email: string
  label: string
  mask: string
  scopes: string[]
  projectIds: number[] | null
  createdAt: Date
  expiresAt: Date | null
  revokedAt: Date | null
  lastUsedAt: Date | null
}

/** Lists personal keys, newest first, revoked and expired ones included; never the keys themselves. */
export async function listPersonalKeys (sql: Sql): Promise<ListedPersonalKey[]> {
  return await sql<ListedPersonalKey[]>`
    SELECT k.id, u.email, k.label, k.mask_value AS mask, k.scopes, k.project_ids AS "projectIds",
      k.created_at AS "createdAt", k.expires_at AS "expiresAt", k.revoked_at AS "revokedAt",
      k.last_used_at AS "lastUsedAt"
    FROM personal_api_keys k
    JOIN users u ON u.id = k.user_id
    ORDER BY k.created_at DESC, k.id`
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Revokes a personal key, and those that were made with it. Every process refuses them as soon as it is notified.
 * Revoking again changes nothing.
 *
 * @param idOrKey  The id that `keys list` shows, or the key itself, in case it leaked.
 * @returns when it was revoked.
 * @throws {MillraceError} `MILLRACE_KEY_NOT_FOUND`.
 */
export async function revokePersonalKey (sql: Sql, idOrKey: string): Promise<{ id: string, revokedAt: Date }> {
  return await changeKeys(sql, async (tx) => {
    const [key] = await tx<{ id: string }[]>`SELECT id FROM personal_api_keys
      WHERE ${UUID.test(idOrKey) ? tx`id = ${idOrKey}` : tx`secure_value = ${hashPersonalKey(idOrKey)}`}`
    if (key === undefined) throw new MillraceError('MILLRACE_KEY_NOT_FOUND', 'there is no such personal key')
    await revokeWithMade(tx, key.id)
    const [row] = await tx<{ id: string, revokedAt: Date }[]>`
      SELECT id, revoked_at AS "revokedAt" FROM personal_api_keys WHERE id = ${key.id}`
    return row!
  })
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
