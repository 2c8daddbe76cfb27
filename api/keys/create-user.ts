import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { MillraceError } from '../../platform/errors.ts'
import { type UserSummary } from './user-summary.ts'

/** A local part, one @, a domain: whether mail arrives is for the operator to know. */
const EMAIL = /^[^\s@]+@[^\s@]+$/

/**
 * Creates a user, who can then own personal keys. E-mail addresses are compared without regard to case.
 *
 * @throws {MillraceError} `MILLRACE_USER_EXISTS`, `MILLRACE_EMAIL_INVALID`.
 */
export async function createUser (sql: Sql, user: { email: string, firstName: string }): Promise<UserSummary> {
  const email = user.email.trim().toLowerCase()
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
