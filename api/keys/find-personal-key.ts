import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { selectUserSummary, type UserSummary } from './user-summary.ts'

/** A stored personal key with its owner. */
export interface PersonalKey {
  id: string
  user: UserSummary
  scopes: string[]
  /** The only projects it opens; null opens all. */
  projectIds: number[] | null
  expiresAt: Date | null
  revokedAt: Date | null
  lastUsedAt: Date | null
}

/**
 * Finds a personal key, also an expired or revoked one: the caller says which it is.
 *
 * @param secureValue  Hash of the key (`hashPersonalKey`).
 */
export async function findPersonalKey (sql: Sql, secureValue: string): Promise<PersonalKey | undefined> {
  const [row] = await sql<PersonalKey[]>`
    SELECT k.id, k.scopes, k.project_ids AS "projectIds", k.expires_at AS "expiresAt", k.revoked_at AS "revokedAt",
      k.last_used_at AS "lastUsedAt",
      ${selectUserSummary(sql)} AS user
    FROM personal_api_keys k
    JOIN users u ON u.id = k.user_id
    WHERE k.secure_value = ${secureValue}`
  return row
}
