import { forbidden, HttpError } from '../../engines/errors.ts'
import type { Sql, SqlTemplates, Statement } from '../../platform/postgres/connect-postgres.ts'
import type { Rights } from '../../schema/roles.ts'
import { allowsScope, type Scope } from '../../schema/scopes.ts'
import { notFound } from '../http/answer-errors.ts'
import { object, type Row, timeOrNull } from '../http/json-schema.ts'
import type { Access } from '../http/personal-key-access.ts'

/** A personal key as answers show it: never the key itself. */
export type ShownKey = Row<typeof shownKeySchema>

export const shownKeySchema = object({
  id: { type: 'string', format: 'uuid' },
  label: { type: 'string' },
  mask_value: { type: 'string', description: 'First and last four characters.' },
  user: object({ id: { type: 'integer' }, email: { type: 'string' }, first_name: { type: 'string' } }),
  scopes: { type: 'array', items: { type: 'string' } },
  scoped_teams: { type: ['array', 'null'], items: { type: 'integer' }, description: 'Ids of its projects; null for all.' },
  created_at: { type: 'string', format: 'date-time' },
  last_used_at: { ...timeOrNull, description: 'To the hour.' },
  expires_at: { ...timeOrNull, description: 'Null: never.' },
  revoked_at: timeOrNull,
  made_by: { type: 'array', items: { type: 'string', format: 'uuid' }, description: 'Revoking any of these keys revokes this one.' },
  made_by_users: { type: 'array', items: { type: 'integer' }, description: 'Users besides the owner whose rights limit the key. Disabling any of them revokes it.' },
  is_current: { type: 'boolean', description: 'true: the key of this request.' }
})

/** The columns of a `ShownKey`, for a query on `personal_api_keys AS k` joined to `users AS u`. */
export function selectShownKey (sql: SqlTemplates, { keyHash }: Pick<Access, 'keyHash'>): Statement {
  return sql`k.id, k.label, k.mask_value, json_build_object('id', u.id, 'email', u.email, 'first_name', u.first_name) AS user,
    k.scopes, k.project_ids AS scoped_teams, k.created_at, k.last_used_at, k.expires_at, k.revoked_at, k.made_by, k.made_by_users,
    k.secure_value = ${keyHash} AS is_current`
}

type Limits = Pick<Rights, 'scopes' | 'projectIds'>

/** May everything, everywhere. */
export function isAdministrator ({ scopes, projectIds }: Limits): boolean {
  return scopes.includes('*') && projectIds === null
}

/** The rows of `personal_api_keys AS k` that a key sees: all as administrator, else those of its own user. */
export function isSeenBy (sql: SqlTemplates, access: Access): Statement {
  return isAdministrator(access) ? sql`true` : sql`k.user_id = ${access.userId}`
}

/** True when the first rights allow nothing that the second do not. */
export function isWithin (inner: Limits, outer: Limits): boolean {
  const { projectIds } = outer
  const isForFewer = projectIds === null ||
    (inner.projectIds !== null && inner.projectIds.every((id) => projectIds.includes(id)))
  return isForFewer && inner.scopes.every((scope) =>
    scope === '*' ? outer.scopes.includes('*') : allowsScope(outer.scopes, scope as Scope))
}

/**
 * Reads a key that is about to be changed, and locks it until the end of the transaction.
 *
 * @param isEnding  A key ends itself, and a person who has logged in each of their own, even one that says more than
 *   they may do now.
 * @throws {HttpError} 404 for a key that is not seen, 403 for one that may do more than the key of the request.
 */
export async function lockKey (
  sql: SqlTemplates, id: string, access: Access, { isEnding = false } = {}
): Promise<ShownKey> {
  const [key] = await sql<ShownKey[]>`
    SELECT ${selectShownKey(sql, access)} FROM personal_api_keys k JOIN users u ON u.id = k.user_id
    WHERE k.id = ${id} AND ${isSeenBy(sql, access)} FOR UPDATE OF k`
  if (key === undefined) throw notFound()
  const isOwn = key.is_current || (access.isSession && key.user.id === access.userId)
  if ((isEnding && isOwn) || isWithin({ scopes: key.scopes, projectIds: key.scoped_teams }, access)) return key
  throw forbidden('This key has more rights than yours.')
}

/** The key that creates another one, which lasts no longer than it and is revoked with it. */
export interface Maker {
  /** Null: a user who has logged in. */
  id: string | null
  expiresAt: Date | null
  /** Whose rights limit what it makes: its owner, and those who made it. */
  users: number[]
}

/** Any number, the same in every version: the advisory lock under which personal keys are made and revoked. */
const KEYS_LOCK = 7_104_370

/** Runs a change of personal keys alone, in a transaction: a key that is being revoked makes no other meanwhile. */
export async function changeKeys<T> (sql: Sql, change: (tx: SqlTemplates) => Promise<T>): Promise<T> {
  return await sql.begin(async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${KEYS_LOCK})`
    return await change(tx)
  })
}

/**
 * The key or session of a request, read again under the lock of `changeKeys`.
 *
 * @throws {HttpError} 401 when it ended meanwhile.
 */
export async function readMaker (
  tx: SqlTemplates, { keyHash, isSession, userId }: Pick<Access, 'keyHash' | 'isSession' | 'userId'>
): Promise<Maker> {
  const [maker] = isSession
    ? await tx<Maker[]>`
      SELECT NULL AS id, NULL AS "expiresAt", ARRAY[id] AS users FROM users WHERE id = ${userId} AND disabled_at IS NULL`
    : await tx<Maker[]>`
      SELECT id, expires_at AS "expiresAt", made_by_users || user_id AS users FROM personal_api_keys
      WHERE secure_value = ${keyHash} AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`
  if (maker !== undefined) return maker
  throw new HttpError(401, 'authentication_error', 'invalid_personal_api_key', isSession ? 'Log in first.' : 'Personal API key has expired or was revoked.')
}

/** Whether a key with this end lasts longer than the one that makes it. */
export function outlasts (expiresAt: Date | null, maker: Maker): boolean {
  return maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt)
}

/** Lets what an old key has made end with the one in its place, too. */
export async function inheritKeys (tx: SqlTemplates, { from, to }: { from: string, to: string }): Promise<void> {
  await tx`UPDATE personal_api_keys SET made_by = made_by || ${to}::uuid WHERE ${from}::uuid = ANY(made_by) AND id <> ${to}`
}

/** Ends for good what acts for a user: sessions, keys (owned or made, with what these made), links, SQL of alerts. */
export async function endAllOf (tx: SqlTemplates, userId: number): Promise<void> {
  await tx`DELETE FROM console_sessions WHERE user_id = ${userId}`
  await tx`DELETE FROM invitations WHERE user_id = ${userId}`
  const keys = await tx<{ id: string }[]>`
    SELECT id FROM personal_api_keys WHERE (user_id = ${userId} OR ${userId} = ANY(made_by_users)) AND revoked_at IS NULL`
  for (const { id } of keys) await revokeWithMade(tx, id)
  await tx`DELETE FROM board_links WHERE ${userId} = ANY(made_by_users || created_by)`
  await tx`UPDATE alerts SET may_run_sql = false WHERE may_run_sql AND ${userId} = ANY(made_by_users)`
}

/** Revokes a key with all that it made, and that those made. One that was revoked before keeps its time. */
export async function revokeWithMade (tx: SqlTemplates, id: string): Promise<void> {
  await tx`
    WITH RECURSIVE ended AS (
      SELECT ${id}::uuid AS id
      UNION
      SELECT k.id FROM personal_api_keys k JOIN ended e ON e.id = ANY(k.made_by)
    )
    UPDATE personal_api_keys k SET revoked_at = COALESCE(revoked_at, now()) FROM ended e WHERE k.id = e.id`
}
