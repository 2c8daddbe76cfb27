import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type SqlFragment } from './pages/match-search.ts'

/**
 * The column `created_by` of a resource, as api.md 2.2 shows a user; null without one.
 *
 * @param userId  The resource's own column.
 */
export function selectCreatedBy (sql: Sql, userId: SqlFragment): SqlFragment {
  return sql`(
    SELECT json_build_object('id', u.id, 'uuid', u.uuid, 'distinct_id', u.distinct_id, 'first_name', u.first_name,
      'email', u.email, 'is_email_verified', u.is_email_verified)
    FROM users u WHERE u.id = ${userId}
  ) AS created_by`
}
