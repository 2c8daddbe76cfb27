import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { QueryError } from './query-errors.ts'

/** The login that only reads, within limits. Every other one is an owner and may do everything. */
export const ANALYST = 'analyst'

/** The name of a login: `analyst`, or the owner's. */
export type User = string

/** SHA-256 of the password of each login: the process of the engine need not know more. */
export type LoginDigests = Readonly<Record<User, string>>

/** In hexadecimal digits. */
export function digestPassword (password: string): string {
  return digest(password).toString('hex')
}

/**
 * Finds the user of a request: by `X-ClickHouse-User` and `X-ClickHouse-Key`, by Basic authentication, or by `user`
 * and `password` in the URL, the first of these that is present, like a server.
 *
 * @throws {QueryError} 516, the same text for an unknown user and a wrong password.
 */
export function createAuthenticate (logins: LoginDigests): (request: IncomingMessage, url: URL) => User {
  const digests = new Map(Object.entries(logins).map(([user, hex]) => [user, Buffer.from(hex, 'hex')]))
  return function authenticate (request, url) {
    const { user, password } = readCredentials(request, url)
    const expected = digests.get(user)
    // Digests have one length, so that neither the password's length nor its first wrong character can be timed.
    const matches = timingSafeEqual(digest(password), expected ?? digest(''))
    if (expected === undefined || !matches) {
      throw new QueryError(516, `${user}: Authentication failed: password is incorrect, or there is no user with such name`)
    }
    return user
  }
}

function readCredentials (request: IncomingMessage, url: URL): { user: string, password: string } {
  const user = request.headers['x-clickhouse-user']
  const password = request.headers['x-clickhouse-key']
  if (user !== undefined || password !== undefined) return { user: String(user ?? 'default'), password: String(password ?? '') }

  const basic = /^basic\s+(\S+)$/i.exec(request.headers.authorization ?? '')
  if (basic !== null) {
    const text = Buffer.from(basic[1]!, 'base64').toString('utf8')
    const colon = text.indexOf(':')
    return colon === -1 ? { user: text, password: '' } : { user: text.slice(0, colon), password: text.slice(colon + 1) }
  }
  return { user: url.searchParams.get('user') || 'default', password: url.searchParams.get('password') ?? '' }
}

function digest (text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
