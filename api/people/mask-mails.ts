import type { FastifyRequest } from 'fastify'

/**
 * As strict as it must be to find one in any text, and not more. The lengths are those of RFC 5321: without them, a
 * long text without any takes time by the square of its length. In addresses of pages the sign is escaped.
 */
const MAIL = /[^\s@<>"',;:()[\]{}/|=&?]{1,64}(?:@|%40)[^\s@<>"',;:()[\]{}/|=&?]{1,255}\.[^\s@<>"',;:()[\]{}/|=&?.]{1,63}/g

const MASK = '***@***'

/**
 * Masks addresses of mail in an answer to somebody who does not see persons, wherever they stand: in values of a
 * breakdown, examples of properties, conditions of flags. The users of Millrace, such as authors, are shown.
 */
export async function maskMails (request: FastifyRequest, _reply: unknown, payload: unknown): Promise<unknown> {
  return request.access?.seesPersons === false ? mask(payload) : payload
}

/** A copy: answers may be kept for others. */
function mask (value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(MAIL, MASK)
  if (Array.isArray(value)) return value.map(mask)
  // Times, and numbers that keep all their digits, write themselves.
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value
  const entries = Object.entries(value)
  const isUser = 'email' in value && 'first_name' in value
  return Object.fromEntries(entries.map(([name, inner]) => [
    name.replaceAll(MAIL, MASK), isUser && name === 'email' ? inner : mask(inner)
  ]))
}
