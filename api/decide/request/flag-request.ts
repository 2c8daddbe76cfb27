import { HttpError } from '../../../platform/errors.ts'
import { type Properties } from '../../flags/subject.ts'

/** A request for flags with every field checked. */
export interface FlagRequest {
  distinctId: string
  anonDistinctId: string | null
  deviceId: string | null
  /** Group key by group type. */
  groups: ReadonlyMap<string, string>
  personProperties: Properties | null
  /** Property overrides by group type. */
  groupProperties: ReadonlyMap<string, Properties>
  /** The only flags to answer; null: all. */
  flagKeys: ReadonlySet<string> | null
  /** The client wants the configuration only. */
  disableFlags: boolean
  /** Which side asks: flags for the other are left out. */
  runtime: 'server' | 'client' | 'all'
}

/** Longer ids are cut, as those of events are. */
const MAX_ID_LENGTH = 200

type Body = Readonly<Record<string, unknown>>

/** @throws {HttpError} 400 when the body is not a JSON object. */
export function readBodyObject (body: unknown): Body {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Body
  throw new HttpError(400, 'validation_error', 'invalid_input', 'The body must be a JSON object.', { attr: 'body' })
}

/** The key of a request, under any of the names that SDKs use; null when there is none. */
export function readToken (body: Body, query: Body): string | null {
  const token = body.token ?? body.$token ?? body.api_key ?? query.token ?? query.api_key
  return typeof token === 'string' && token.trim() !== '' ? token.trim() : null
}

/**
 * Reads what is asked about whom.
 *
 * @throws {HttpError} 400 with the field in `attr`.
 */
export function readFlagRequest (body: Body): FlagRequest {
  const disableFlags = body.disable_flags === true
  const personProperties = readProperties(body.person_properties ?? body.$properties, 'person_properties')
  const distinctId = readId(body.distinct_id ?? body.$distinct_id, 'distinct_id')
  if (distinctId === null && !disableFlags) {
    throw new HttpError(400, 'validation_error', 'required', 'This field is required.', { attr: 'distinct_id' })
  }
  const anonDistinctId = readId(body.$anon_distinct_id ?? body.anon_distinct_id, '$anon_distinct_id')
  return {
    distinctId: distinctId ?? '',
    anonDistinctId: anonDistinctId === '' || anonDistinctId === distinctId ? null : anonDistinctId,
    deviceId: readId(body.$device_id ?? body.device_id ?? personProperties?.$device_id, '$device_id'),
    groups: readGroups(body.groups ?? body.$groups),
    personProperties,
    groupProperties: readGroupProperties(body.group_properties ?? body.$group_properties),
    flagKeys: readFlagKeys(body.flag_keys_to_evaluate ?? body.flag_keys),
    disableFlags,
    runtime: body.evaluation_runtime === 'server' || body.evaluation_runtime === 'client' ? body.evaluation_runtime : 'all'
  }
}

/** An id may be a text or a number; absent and null are null. */
function readId (value: unknown, attr: string): string | null {
  if (value == null) return null
  if (typeof value !== 'string' && typeof value !== 'number') throw invalid(attr, 'This field must be a text.')
  return cleanText(String(value), MAX_ID_LENGTH)
}

function readGroups (value: unknown): Map<string, string> {
  const groups = new Map<string, string>()
  for (const [type, key] of Object.entries(readObject(value, 'groups') ?? {})) {
    if (key === null) continue
    if (typeof key !== 'string' && typeof key !== 'number') {
      throw invalid(`groups__${type}`, 'The key of a group must be a text.')
    }
    groups.set(type, cleanText(String(key), Number.POSITIVE_INFINITY))
  }
  return groups
}

function readProperties (value: unknown, attr: string): Properties | null {
  return readObject(value, attr)
}

function readGroupProperties (value: unknown): Map<string, Properties> {
  const byType = new Map<string, Properties>()
  for (const [type, properties] of Object.entries(readObject(value, 'group_properties') ?? {})) {
    const read = readObject(properties, `group_properties__${type}`)
    if (read !== null) byType.set(type, read)
  }
  return byType
}

function readFlagKeys (value: unknown): Set<string> | null {
  if (value == null) return null
  if (!Array.isArray(value) || !value.every((key) => typeof key === 'string')) {
    throw invalid('flag_keys_to_evaluate', 'This field must be an array of texts.')
  }
  return new Set(value)
}

function readObject (value: unknown, attr: string): Body | null {
  if (value == null) return null
  if (typeof value !== 'object' || Array.isArray(value)) throw invalid(attr, 'This field must be an object.')
  return value as Body
}

function invalid (attr: string, detail: string): HttpError {
  return new HttpError(400, 'validation_error', 'invalid_input', detail, { attr: attr.slice(0, 200) })
}

/** Cuts to whole characters, and replaces what Postgres cannot hold, as it is done with the ids of events. */
function cleanText (text: string, maxLength: number): string {
  const cut = text.length > maxLength ? [...text.slice(0, maxLength * 2)].slice(0, maxLength).join('') : text
  return cut.includes('\0') || !cut.isWellFormed() ? cut.toWellFormed().replaceAll('\0', '\ufffd') : cut
}
