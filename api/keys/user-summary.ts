import { type Sql, type Statement } from '../../platform/postgres/connect-postgres.ts'

/** A person as answers show them, in `created_by` (docs/contract/service.md 2.2). */
export interface UserSummary {
  id: number
  uuid: string
  distinct_id: string
  first_name: string
  email: string
  is_email_verified: boolean
}

/** A `UserSummary` of the table `users AS u`, as a column of a query. */
export function selectUserSummary (sql: Sql): Statement {
  return sql`json_build_object('id', u.id, 'uuid', u.uuid, 'distinct_id', u.distinct_id, 'first_name', u.first_name,
    'email', u.email, 'is_email_verified', u.is_email_verified)`
}

/** Schema of `created_by`; null when the user is gone or a process made the thing. */
export const userSummarySchema = {
  type: ['object', 'null'],
  description: 'Who created it; null when that is not a user or the user is gone.',
  required: ['id', 'uuid', 'distinct_id', 'first_name', 'email', 'is_email_verified'],
  properties: {
    id: { type: 'integer' },
    uuid: { type: 'string', format: 'uuid' },
    distinct_id: { type: 'string' },
    first_name: { type: 'string' },
    email: { type: 'string', format: 'email' },
    is_email_verified: { type: 'boolean' }
  }
} as const
