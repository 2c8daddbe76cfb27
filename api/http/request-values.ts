import { invalidField } from '../../engines/errors.ts'
import { isStorableText } from '../../engines/body/storable-text.ts'
import { optional } from './json-schema.ts'

const ISO = /^(\d{4}-\d{2}-\d{2})(?:[Tt ]((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?(?:[Zz]|([+-]\d{2})(?::?(\d{2}))?)?)?$/

/**
 * True for an ISO 8601 date or date-time that exists in the calendar; a missing zone means UTC. Years 1000 to 9999:
 * earlier ones are typing errors.
 */
export function isIsoDateTime (text: string): boolean {
  return parseIsoDateTime(text) !== undefined
}

/** The instant of an ISO 8601 date or date-time, in UTC when it has no zone; undefined when it is absent or not one. */
export function parseIsoDateTime (given: string | null | undefined): Date | undefined {
  const [, day, time, second = '00', fraction = '', hours = '+00', minutes = '00'] = ISO.exec(given ?? '') ?? []
  if (day === undefined || day < '1000' || !isDayOfCalendar(day)) return undefined
  const milliseconds = fraction.padEnd(3, '0').slice(0, 3)
  const date = new Date(`${day}T${time ?? '00:00'}:${second}.${milliseconds}${hours}:${minutes}`)
  // The zone may move it out of these years, to a date that cannot be stored.
  return date.getUTCFullYear() >= 1000 && date.getUTCFullYear() <= 9999 ? date : undefined
}

/** The same in whole seconds within the years that ClickHouse's DateTime has: 1970 to 2106. */
export function parseSeconds (text: string | undefined): number | undefined {
  const time = parseIsoDateTime(text)?.getTime()
  return time === undefined ? undefined : limitSeconds(Math.floor(time / 1000))
}

export function limitSeconds (seconds: number): number {
  return Math.min(Math.max(seconds, 0), 4_294_967_295)
}

/** Not the 30th of February, which `Date` takes for the second of March. */
function isDayOfCalendar (day: string): boolean {
  const begin = Date.parse(`${day}T00:00Z`)
  return !Number.isNaN(begin) && new Date(begin).toISOString().startsWith(day)
}

/**
 * Reads a whole number as JSON and SQL write it, without sign +, spaces, leading zeros, fraction, exponent or other
 * bases: the meaning of `0x10`, `1e3` or `5.0` would be a guess.
 *
 * @returns undefined for anything else, and beyond 2^53.
 */
export function parseInteger (text: string): number | undefined {
  const value = /^(?:0|-?[1-9]\d{0,15})$/.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(value) ? value : undefined
}

/** Reads a boolean: `true`, `1` and Python's `True`, and their opposites; undefined for anything else. */
export function parseBoolean (text: string): boolean | undefined {
  return Object.hasOwn(BOOLEANS, text) ? BOOLEANS[text] : undefined
}

const BOOLEANS: Record<string, boolean> = {
  true: true, false: false, 1: true, 0: false, True: true, False: false, TRUE: true, FALSE: false
}

/**
 * Reads a list of names from a query parameter: a JSON array of strings, or names separated by commas. Names with a
 * comma need the first form.
 *
 * @returns undefined when the parameter is absent or empty.
 * @throws {HttpError} 400 naming the parameter, when it begins like a JSON array and is not one.
 */
export function readNameList (parameter: string, text: string | undefined): string[] | undefined {
  if (text === undefined || text.trim() === '') return undefined
  if (!text.trimStart().startsWith('[')) return text.split(',').map((name) => name.trim()).filter((name) => name !== '')
  const names = parseJson(text)
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && isStorableText(name))) {
    throw invalidField(parameter, `${parameter} must be a JSON array of strings.`)
  }
  return names as string[]
}

function parseJson (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The caller refuses it.
    return undefined
  }
}

/** The fields that are there. */
export function defined<T extends object> (fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const given: any[][] = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given)
}

/** As Postgres and the tables of ClickHouse write it; the format of `ajv-formats` also allows `urn:uuid:` before it. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Path parameters of one thing that has a UUID. `openapi.ts` describes the project of every path. */
export const uuidParams = optional({ id: { type: 'string', format: 'uuid' } })

/** The same of one with a number, up to the largest of the column. */
export const idParams = optional({ id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } })
