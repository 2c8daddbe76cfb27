import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { MillraceError } from '../../platform/errors.ts'
import { hashPersonalKey } from './hash-personal-key.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Revokes a personal key indefinitely; every API process refuses it as soon as it is notified. Revoking twice changes
 * nothing.
 *
 * @param idOrKey  The id that `keys list` shows, or the key itself, for when it leaked.
 * @returns when it was revoked.
 * @throws {MillraceError} `MILLRACE_KEY_UNKNOWN`.
 */
export async function revokePersonalKey (sql: Sql, idOrKey: string): Promise<{ id: string, revokedAt: Date }> {
  const [row] = await sql<{ id: string, revokedAt: Date }[]>`
    UPDATE personal_api_keys SET revoked_at = COALESCE(revoked_at, now())
    WHERE ${UUID.test(idOrKey) ? sql`id = ${idOrKey}` : sql`secure_value = ${hashPersonalKey(idOrKey)}`}
    RETURNING id, revoked_at AS "revokedAt"`
  if (row === undefined) throw new MillraceError('MILLRACE_KEY_UNKNOWN', 'there is no such personal key')
  return row
}
