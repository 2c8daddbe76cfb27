import type { FastifyRequest } from 'fastify'
import { userSummarySchema } from '../projects/users.ts'

/**
 * As strict as it must be to find one in any text, and not more. The lengths are those of RFC 5321: without them, a
 * long text without any takes time by the square of its length. In addresses of pages the sign is escaped, perhaps
 * more than once.
 */
const MAIL = /[^\s@<>"',;:()[\]{}/|=&?]{1,64}(?:@|%(?:25){0,3}40)[^\s@<>"',;:()[\]{}/|=&?]{1,255}\.[^\s@<>"',;:()[\]{}/|=&?.]{1,63}/g

const MASK = '***@***'

const fieldsOf = (value: object): string => Object.keys(value).sort().join()

/** Nothing that people store or send has exactly these. */
const FIELDS_OF_USERS = fieldsOf(userSummarySchema.properties)

/**
 * Masks addresses of mail in an answer to somebody who does not see persons. The users of Millrace are shown: such as
 * authors, and on routes about the user and the own keys.
 */
export async function maskAnswer (
  { access, routeOptions: { config: { scope } } }: Pick<FastifyRequest, 'access' | 'routeOptions'>, _reply: unknown, payload: unknown
): Promise<unknown> {
  return access?.seesPersons === false && scope?.startsWith('user:') !== true ? maskMails(payload) : payload
}

/**
 * A copy without addresses of mail, wherever they stand: in values of a breakdown, examples of properties, conditions
 * of flags. The original may be kept for others.
 */
export function maskMails (value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(MAIL, MASK)
  if (Array.isArray(value)) return value.map(maskMails)
  // Times, and numbers that keep all their digits, write themselves.
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value
  const isUser = fieldsOf(value) === FIELDS_OF_USERS
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [
    name.replaceAll(MAIL, MASK), isUser && name === 'email' ? inner : maskMails(inner)
  ]))
}
