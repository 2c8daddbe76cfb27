/** Which keys a key has made: they last no longer than it, and are revoked with it. */
import { HttpError } from '../../engines/errors.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'

/** The key that makes another one. */
export interface Maker {
  id: string
  /** Null: it does not end. */
  expiresAt: Date | null
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
 * The key of a request, which is about to make another one.
 *
 * @throws {HttpError} 401 when it ended meanwhile.
 */
export async function readMaker (tx: SqlTemplates, { keyHash }: { keyHash: string }): Promise<Maker> {
  const [maker] = await tx<Maker[]>`
    SELECT id, expires_at AS "expiresAt" FROM personal_api_keys
    WHERE secure_value = ${keyHash} AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`
  if (maker !== undefined) return maker
  throw new HttpError(401, 'authentication_error', 'invalid_personal_api_key', 'Personal API key has ended.')
}

/** Whether a key with this end lasts longer than the one that makes it. */
export function outlasts (expiresAt: Date | null, maker: Maker): boolean {
  return maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt)
}

/** Lets what an old key has made end with the one in its place, too. */
export async function inheritKeys (tx: SqlTemplates, { from, to }: { from: string, to: string }): Promise<void> {
  await tx`UPDATE personal_api_keys SET made_by = made_by || ${to}::uuid WHERE ${from}::uuid = ANY(made_by) AND id <> ${to}`
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
