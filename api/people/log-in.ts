import { createHash } from 'node:crypto'
import { HttpError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { LogIn } from '../../console/server/session-routes.ts'
import { hashToken } from '../../console/server/sessions.ts'
import { toStoredEmail } from '../projects/users.ts'
import { hashPassword, isPassword } from './passwords.ts'

/** Wrong attempts in `WINDOW_MS` before further ones get no answer: of an account, and from an address. */
const MAX_OF_ACCOUNT = 10
const MAX_OF_ADDRESS = 50
const WINDOW_MS = 900_000

/** Logs people in by password, with limits, and lets those who were invited choose theirs. */
export function createLogIn ({ sql, now }: { sql: Sql, now: () => number }): LogIn {
  return {
    async byPassword ({ email: typed, password, address }) {
      const email = toStoredEmail(typed)
      const attempts = [
        { subject: subjectOf('account', email), most: MAX_OF_ACCOUNT },
        { subject: subjectOf('address', address), most: MAX_OF_ADDRESS }
      ]
      // One after the other: attempts on a locked account do not lock out the others of an office.
      for (const attempt of attempts) await countAttempt(sql, attempt, now())
      const [user] = await sql<{ id: number, hash: string | null, isDisabled: boolean }[]>`
        SELECT id, password_hash AS hash, disabled_at IS NOT NULL AS "isDisabled" FROM users WHERE email = ${email}`
      const isRight = await isPassword(password, user?.hash ?? null)
      if (user === undefined || !isRight || user.isDisabled) {
        throw new HttpError(401, 'authentication_error', 'authentication_failed', 'Wrong e-mail address or password.')
      }
      await sql`UPDATE login_attempts SET count = count - 1 WHERE subject = ANY(${attempts.map(({ subject }) => subject)}::text[])`
      return user.id
    },
    async byInvitation ({ token, password, firstName }) {
      const hash = await hashPassword(password)
      return await sql.begin(async (tx) => {
        const [invited] = await tx<{ userId: number }[]>`
          DELETE FROM invitations WHERE token_hash = ${hashToken(token)} AND expires_at > ${new Date(now())} RETURNING user_id AS "userId"`
        if (invited === undefined) {
          throw new HttpError(401, 'authentication_error', 'authentication_failed', 'This invitation was used already, or is too old. Ask for a new one.')
        }
        const { userId } = invited
        await tx`
          UPDATE users SET password_hash = ${hash}, password_set_at = ${new Date(now())}, first_name = coalesce(${firstName ?? null}, first_name)
          WHERE id = ${userId} AND disabled_at IS NULL`
        // Whoever knew the old password is logged out.
        await tx`DELETE FROM console_sessions WHERE user_id = ${userId}`
        return userId
      })
    }
  }
}

function subjectOf (kind: string, text: string): string {
  return createHash('sha256').update(`${kind} ${text}`).digest('hex')
}

/** Counts before the password is checked: attempts at the same time do not get past the limit. */
async function countAttempt (
  sql: Sql, { subject, most }: { subject: string, most: number }, now: number
): Promise<void> {
  const begins = new Date(now - WINDOW_MS)
  await sql`DELETE FROM login_attempts WHERE since < ${begins}`
  const [attempts] = await sql<{ count: number }[]>`
    INSERT INTO login_attempts AS known (subject, count, since) VALUES (${subject}, 1, ${new Date(now)})
    ON CONFLICT (subject) DO UPDATE SET count = least(known.count, ${most}) + 1 RETURNING count`
  if ((attempts?.count ?? 0) <= most) return
  throw new HttpError(429, 'throttled_error', 'throttled', `Too many wrong passwords. Try again in ${WINDOW_MS / 60_000} minutes.`)
}
