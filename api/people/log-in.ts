import { createHash } from 'node:crypto'
import ipaddr from 'ipaddr.js'
import { HttpError, invalidField } from '../../engines/errors.ts'
import { actors } from '../../platform/postgres/actor.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { hashToken } from '../../console/server/sessions.ts'
import { toStoredEmail } from '../projects/users.ts'
import { hashChosen, isPassword } from './passwords.ts'

/** Wrong attempts in `WINDOW_MS` before further ones get no answer: of an account, and from an address. */
const MAX_OF_ACCOUNT = 10
const MAX_OF_ADDRESS = 50
const WINDOW_MS = 900_000
const WRONG = 'authentication_failed'

/** A user, and the hash of the password that was right. */
interface Known { userId: number, hash: string }

interface NewPassword { userId: number, session: string, current: string, password: string, address: string }

/** Logs people in by password, with limits, and lets them choose theirs: by an invitation, or by the present one. */
export function createLogIn ({ sql, now }: { sql: Sql, now: () => number }) {
  /** Counts before the attempt, as others run at the same time; what is right is given back. */
  async function limit<T> (counted: Counted[], attempt: () => Promise<T>): Promise<T> {
    const subjects: string[] = []
    let isWrong = false
    try {
      // One after the other: attempts on a locked account do not lock out the others of an office, nor those from a
      // locked address the account.
      for (const each of counted) {
        await countAttempt(sql, each, now())
        subjects.push(each.subject)
      }
      return await attempt()
    } catch (error) {
      isWrong = error instanceof HttpError && (error.status === 401 || error.code === WRONG)
      throw error
    } finally {
      if (!isWrong && subjects.length > 0) await sql`UPDATE login_attempts SET count = count - 1 WHERE subject = ANY(${subjects}::text[])`
    }
  }

  return {
    /** Runs another way to log in, unless too many from that address were refused. @throws {HttpError} 429. */
    async limit<T> (address: string, attempt: () => Promise<T>): Promise<T> {
      return await limit([ofAddress(address)], attempt)
    },
    /** @throws {HttpError} 401 whatever is wrong, 429 after too many attempts. */
    async byPassword ({ email: typed, password, address }: Record<'email' | 'password' | 'address', string>): Promise<Known> {
      const email = toStoredEmail(typed)
      return await limit([ofAccount(email), ofAddress(address)], async () => {
        const [user] = await sql<{ id: number, hash: string | null, isDisabled: boolean }[]>`
          SELECT id, password_hash AS hash, disabled_at IS NOT NULL AS "isDisabled" FROM users WHERE email = ${email}`
        const isRight = await isPassword(password, user?.hash ?? null)
        if (user?.hash != null && isRight && !user.isDisabled) return { userId: user.id, hash: user.hash }
        throw new HttpError(401, 'authentication_error', WRONG, 'Wrong e-mail address or password.')
      })
    },
    /** Sets the password of whoever was invited. @throws {HttpError} 401 for a link that is used or too old. */
    async byInvitation (
      { token, password, firstName = null, address }:
      Record<'token' | 'password' | 'address', string> & { firstName: string | null | undefined }
    ): Promise<Known> {
      const at = new Date(now())
      return await limit([ofAddress(address)], async () => {
        const userId = await findInvited(sql, token, at)
        const [user = { email: '', firstName: '' }] = await sql<{ email: string, firstName: string }[]>`SELECT email, first_name AS "firstName" FROM users WHERE id = ${userId}`
        const hash = await hashChosen(password, [user.email, user.firstName, firstName ?? ''])
        await actors.run({ user_id: userId, address }, async () => await sql.begin(async (tx) => {
          await spendInvitation(tx, userId, token)
          await tx`
            UPDATE users SET password_hash = ${hash}, password_set_at = ${at}, first_name = coalesce(nullif(${firstName}, ''), first_name)
            WHERE id = ${userId}`
        }))
        return { userId, hash }
      })
    },
    /** Ends all sessions but that with this hash. @throws {HttpError} 400 for a wrong password or none, 429. */
    async changePassword ({ userId, session, current, password, address }: NewPassword): Promise<void> {
      const [user] = await sql<{ email: string, firstName: string, hash: string | null }[]>`SELECT email, first_name AS "firstName", password_hash AS hash FROM users WHERE id = ${userId}`
      if (user?.hash == null) throw invalidField('current_password', 'You have no password here: you log in at the identity provider.')
      const { email, hash } = user
      const wrong = () => invalidField('current_password', 'This is not your present password.', WRONG)
      await limit([ofAccount(email), ofAddress(address)], async () => {
        if (!await isPassword(current, hash)) throw wrong()
        const next = await hashChosen(password, [user.email, user.firstName])
        await sql.begin(async (tx) => {
          // Of two changes at the same time, one finds another password.
          const changed = await tx`
            UPDATE users SET password_hash = ${next}, password_set_at = ${new Date(now())}
            WHERE id = ${userId} AND password_hash = ${hash} AND disabled_at IS NULL RETURNING id`
          if (changed.length === 0) throw wrong()
          await tx`DELETE FROM console_sessions WHERE user_id = ${userId} AND token_hash <> ${session}`
          await tx`DELETE FROM invitations WHERE user_id = ${userId}`
        })
      })
    }
  }
}

/** @throws {HttpError} 401 for a link that is used or too old. */
export async function findInvited (sql: Sql, token: string, at: Date): Promise<number> {
  const [invited] = await sql<{ userId: number }[]>`
    SELECT user_id AS "userId" FROM invitations WHERE token_hash = ${hashToken(token)} AND expires_at > ${at}`
  if (invited === undefined) throw unusable()
  return invited.userId
}

/**
 * Ends an invitation and the sessions of its user: whoever knew the old password is logged out. Of two who use it at
 * the same time, one finds it used.
 */
export async function spendInvitation (tx: SqlTemplates, userId: number, token: string): Promise<void> {
  const used = await tx`DELETE FROM invitations WHERE token_hash = ${hashToken(token)} RETURNING user_id`
  if (used.length === 0) throw unusable()
  await tx`DELETE FROM console_sessions WHERE user_id = ${userId}`
}

function unusable (): HttpError {
  return new HttpError(401, 'authentication_error', WRONG, 'This invitation was already used or has expired. Ask for a new one.')
}

/** Whoever has one IPv6 address has a network of 2^64. */
function networkOf (address: string): string {
  const parsed = ipaddr.isValid(address) ? ipaddr.process(address) : null
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : address
}

interface Counted { subject: string, most: number }

const ofAddress = (address: string): Counted => ({ subject: subjectOf('address', networkOf(address)), most: MAX_OF_ADDRESS })
const ofAccount = (email: string): Counted => ({ subject: subjectOf('account', email), most: MAX_OF_ACCOUNT })

function subjectOf (kind: string, text: string): string {
  return createHash('sha256').update(`${kind} ${text}`).digest('hex')
}

async function countAttempt (sql: Sql, { subject, most }: Counted, now: number): Promise<void> {
  const begins = new Date(now - WINDOW_MS)
  await sql`DELETE FROM login_attempts WHERE since < ${begins}`
  const [{ count, since }] = await sql<[{ count: number, since: Date }]>`
    INSERT INTO login_attempts AS known (subject, count, since) VALUES (${subject}, 1, ${new Date(now)})
    ON CONFLICT (subject) DO UPDATE SET count = least(known.count, ${most}) + 1 RETURNING count, since`
  if (count <= most) return
  const seconds = Math.ceil((since.getTime() + WINDOW_MS - now) / 1000) + 1
  throw new HttpError(429, 'throttled_error', 'throttled', `Too many wrong passwords. Try again in ${Math.ceil(seconds / 60)} minutes.`, { details: { retryAfterSeconds: seconds } })
}
