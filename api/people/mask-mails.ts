import type { FastifyRequest } from 'fastify'
import { forbidden, type HttpError } from '../../engines/errors.ts'
import { isFields } from '../../engines/fields.ts'
import { maskAddresses } from '../../engines/mail-addresses.ts'
import { invalidCursor } from '../http/list-queries.ts'
import type { Access } from '../http/personal-key-access.ts'
import { userSummarySchema } from '../projects/users.ts'

type Masked = Pick<FastifyRequest, 'access' | 'routeOptions'>

/** The users of Millrace are shown on routes about the user and the own keys. */
function isMasked ({ access, routeOptions: { config: { scope } } }: Masked): boolean {
  return access?.seesPersons === false && scope?.startsWith('user:') !== true
}

const fieldsOf = (value: object): string => Object.keys(value).sort().join()

/** Nothing that people store or send has exactly these. */
const FIELDS_OF_USERS = fieldsOf(userSummarySchema.properties)

/** Masks addresses of mail in an answer to somebody who does not see persons; authors are shown. */
export async function maskAnswer (request: Masked, _reply: unknown, payload: unknown): Promise<unknown> {
  return isMasked(request) ? maskMails(payload) : payload
}

/**
 * A copy without addresses of mail, wherever they stand: in values of a breakdown, examples of properties, conditions
 * of flags. The original may be kept for others.
 */
export function maskMails (value: unknown): unknown {
  if (typeof value === 'string') return maskAddresses(value)
  if (Array.isArray(value)) return value.map(maskMails)
  // Times, and numbers that keep all their digits, write themselves.
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return value
  const isUser = fieldsOf(value) === FIELDS_OF_USERS
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [
    maskAddresses(name), isUser && name === 'email' ? inner : maskMails(inner)
  ]))
}

/**
 * Refuses parameters that would say, by what is found, what the answer masks. Lists are searched by masked names.
 *
 * @throws {HttpError} 400 for a cursor, which stands for a name and is in no link to somebody like that, and 403.
 */
export async function refuseMaskedQuery (request: Masked & Pick<FastifyRequest, 'query'>): Promise<void> {
  if (!isMasked(request)) return
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (name === 'after') throw invalidCursor()
    refuseHidden(value, [name])
  }
}

/** Event properties with the ids or properties of a person, or a mail address by their name. */
const OF_PERSONS = /^(?:(?:\$anon_)?distinct_id|alias|\$(?:user|device)_id|\$set|\$set_once)$|e-?mail(?:[ _-]?addr(?:ess)?)?$/i

/**
 * Lets somebody who does not see persons ask only what they are shown: of their own definition, whatever names a
 * person is refused, and other properties are compared as their masked values. What others have saved is answered as
 * they wrote it.
 *
 * @param given  The definition as it was sent.
 * @param read  What was read from it.
 * @throws {HttpError} 403 naming the field.
 */
export function askAs<T extends object> ({ seesPersons }: Pick<Access, 'seesPersons'>, given: unknown, read: T, path = 'definition'): T {
  if (seesPersons) return read
  refuseHidden(given, [path])
  markMasked(read)
  return read
}

/** @throws {HttpError} 403 for a mail address, which a flag would say whether its condition has. */
export function refuseAddresses ({ seesPersons }: Pick<Access, 'seesPersons'>, asked: object): void {
  if (!seesPersons) refuseHidden(asked, [])
}

function refuseHidden (value: unknown, path: readonly string[]): void {
  if (typeof value === 'string' && maskAddresses(value) !== value) throw hidden('A mail address', path)
  if (typeof value !== 'object' || value === null) return
  const isOfPerson = 'type' in value && value.type === 'person'
  for (const [name, inner] of Object.entries(value)) {
    if ((name === 'key' || name === 'property') && (isOfPerson || OF_PERSONS.test(String(inner)))) throw hidden('This property', [...path, name])
    refuseHidden(name, path)
    refuseHidden(inner, [...path, name])
  }
}

function hidden (what: string, path: readonly string[]): HttpError {
  return forbidden(`${what} identifies persons, which your role does not see. Ask an administrator for a role with sees_persons.`, path.join('__'))
}

/** Marks conditions and breakdowns, which have an operator or a limit. */
function markMasked (read: unknown): void {
  if (typeof read !== 'object' || read === null) return
  if (isFields(read) && ('operator' in read || 'limit' in read)) Object.assign(read, { isMasked: true })
  for (const inner of Object.values(read)) markMasked(inner)
}
