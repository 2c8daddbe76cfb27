import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { selectUserSummary } from '../keys/user-summary.ts'
import { type SqlFragment } from './pages/match-search.ts'

/**
 * The column `created_by` of a resource, as docs/contract/service.md 2.2 shows a user; null without one.
 *
 * @param userId  The resource's own column.
 */
export function selectCreatedBy (sql: Sql, userId: SqlFragment): SqlFragment {
  return sql`(
    SELECT ${selectUserSummary(sql)} FROM users u WHERE u.id = ${userId}
  ) AS created_by`
}
