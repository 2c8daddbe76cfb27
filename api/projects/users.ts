import { MillraceError } from '../../engines/errors.ts'
import type { SqlTemplates, Statement } from '../../platform/postgres/connect-postgres.ts'
import { nullableObject, time, type Value } from '../http/json-schema.ts'

/** A user as answers show them, in `created_by` (docs/reference/contract/service.md 2.2). */
export type UserSummary = NonNullable<Value<typeof userSummarySchema>>

export const userSummarySchema = nullableObject({
  id: { type: 'integer' },
  uuid: { type: 'string', format: 'uuid' },
  distinct_id: { type: 'string' },
  first_name: { type: 'string' },
  email: { type: 'string', format: 'email' },
  is_email_verified: { type: 'boolean' }
}, 'Who created it; null when that is not a user or the user is gone.')

/** Author, creation time and time of the last change of an object. */
export const originSchemas = { created_by: userSummarySchema, created_at: time, updated_at: time } as const

/** A `UserSummary` of the table `users AS u`, as a column of a query. */
export function selectUserSummary (sql: SqlTemplates): Statement {
  return sql`json_build_object('id', u.id, 'uuid', u.uuid, 'distinct_id', u.distinct_id, 'first_name', u.first_name,
    'email', u.email, 'is_email_verified', u.is_email_verified)`
}

/**
 * The column `created_by` of a resource, as docs/reference/contract/service.md 2.2 shows a user; null without one.
 *
 * @param userId  The resource's own column.
 */
export function selectCreatedBy (sql: SqlTemplates, userId: Statement): Statement {
  return sql`(SELECT ${selectUserSummary(sql)} FROM users u WHERE u.id = ${userId}) AS created_by`
}

/** An e-mail address as stored and compared: without blanks around it, in lower case, however its letters are typed. */
export function toStoredEmail (email: string): string {
  return email.trim().toLowerCase().normalize('NFC')
}

/** A local part, one @, a domain; nothing that is not seen. Nothing is mailed, so nothing else is checked. */
const EMAIL = /^[^\s@\p{C}]+@[^\s@\p{C}]+$/u

/**
 * Creates a user, who can then own personal keys. E-mail addresses are case-insensitive.
 *
 * @throws {MillraceError} `MILLRACE_USER_EXISTS`, `MILLRACE_EMAIL_INVALID`.
 */
export async function createUser (sql: SqlTemplates, user: { email: string, firstName: string }): Promise<UserSummary> {
  const email = toStoredEmail(user.email)
  if (!EMAIL.test(email) || email.length > 254) {
    throw new MillraceError('MILLRACE_EMAIL_INVALID', `"${user.email}" is not an e-mail address`)
  }
  const [created] = await sql<UserSummary[]>`
    INSERT INTO users (email, first_name) VALUES (${email}, ${user.firstName})
    ON CONFLICT (email) DO NOTHING
    RETURNING id, uuid, distinct_id, first_name, email, is_email_verified`
  if (created === undefined) throw new MillraceError('MILLRACE_USER_EXISTS', `there is already a user ${email}`)
  return created
}
