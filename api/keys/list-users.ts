import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type UserSummary } from './user-summary.ts'

export interface ListedUser extends UserSummary {
  /** Keys that can be used now. */
  keys: number
}

export async function listUsers (sql: Sql): Promise<ListedUser[]> {
  return await sql<ListedUser[]>`
    SELECT u.id, u.uuid, u.distinct_id, u.first_name, u.email, u.is_email_verified,
      count(k.id) FILTER (WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())) AS keys
    FROM users u
    LEFT JOIN personal_api_keys k ON k.user_id = u.id
    GROUP BY u.id
    ORDER BY u.id`
}
