import { isFields } from '../../../engines/fields.ts'
import { type HttpError, invalidField } from '../../../engines/errors.ts'
import { isExactNumber } from '../../../engines/body/parse-json.ts'
import type { LocateAddress } from '../../../engines/enrichment/geoip.ts'
import { toDistinctId, toGroupKey, toGroupType } from '../../../schema/wire/identity.ts'
import { senderDevice } from '../../../engines/enrichment/sender-device.ts'
import { cutText } from '../../../engines/body/storable-text.ts'
import type { Properties } from '../../../engines/flags/subject.ts'
import type { Runtime } from './detect-runtime.ts'

export interface FlagRequest {
  distinctId: string
  anonDistinctId: string | null
  deviceId: string | null
  groups: ReadonlyMap<string, string>
  personProperties: Properties | null
  groupProperties: ReadonlyMap<string, Properties>
  /** Keys of the flags to answer; null for all. */
  flagKeys: ReadonlySet<string> | null
  /** The client wants no flags, only the configuration. */
  disableFlags: boolean
  /** Whether the user may be located by IP address. */
  mayLocate: boolean
  /** Where the SDK runs. Flags for another runtime are not answered. */
  runtime: Runtime
}

type Body = Readonly<Record<string, unknown>>

/** @throws {HttpError} 400 when the body is not a JSON object. */
export function readBodyObject (body: unknown): Body {
  if (isEmptyArray(body)) return {}
  if (isFields(body)) return body
  throw invalidField('body', 'The body must be a JSON object.')
}

/** The API key of a request, under any of the names that SDKs use; null without one. */
export function readToken (body: Body, query: Body): string | null {
  const token = body.token ?? body.$token ?? body.api_key ?? query.token ?? query.api_key
  return typeof token === 'string' && token.trim() !== '' ? token.trim() : null
}

/**
 * Reads the fields of a request. Ids, group types and group keys are normalised as in capture
 * (`schema/wire/identity.ts`), so that flags are computed for the same person and group as their events. The strings
 * of the body are storable already (`decodeBody`).
 *
 * @param runtime  Where the request comes from (`detect-runtime.ts`).
 * @throws {HttpError} 400 with the field in `attr`.
 */
export function readFlagRequest (body: Body, runtime: Runtime): FlagRequest {
  const disableFlags = body.disable_flags === true
  const personProperties = readObject(body.person_properties ?? body.$properties, 'person_properties')
  const distinctId = readId(body.distinct_id ?? body.$distinct_id, 'distinct_id')
  if (distinctId === null && !disableFlags) {
    throw invalidField('distinct_id', 'This field is required.', 'required')
  }
  const anonDistinctId =
    readId(body.$anon_distinct_id ?? body.anon_distinct_id ?? readAnonymousProperty(personProperties), '$anon_distinct_id')
  return {
    distinctId: distinctId ?? '',
    anonDistinctId: anonDistinctId === '' || anonDistinctId === distinctId ? null : anonDistinctId,
    deviceId: readId(body.$device_id ?? body.device_id ?? personProperties?.$device_id, '$device_id'),
    groups: readGroups(body.groups ?? body.$groups),
    personProperties,
    groupProperties: readGroupProperties(body.group_properties ?? body.$group_properties),
    flagKeys: readFlagKeys(body),
    disableFlags,
    mayLocate: body.geoip_disable !== true && body.$geoip_disable !== true,
    runtime
  }
}

/**
 * Adds the place of the user (`$geoip_country_code` and others) to the properties of the person, below those that were
 * sent. It is that of `$ip` if the request has one, else that of the sender when the device of the user asks, and never
 * that of a server.
 *
 * @param sender  Address and user agent, as ingest passed them on.
 */
export function addPlace (
  request: FlagRequest, sender: { address: string, userAgent: string }, locate: LocateAddress
): FlagRequest {
  if (!request.mayLocate) return request
  const properties = request.personProperties ?? {}
  const isDevice = request.runtime !== 'server' && senderDevice(properties, sender.userAgent) !== 'other'
  const place = locate(typeof properties.$ip === 'string' ? properties.$ip : isDevice ? sender.address : '')
  return place === null ? request : { ...request, personProperties: { ...place, ...properties } }
}

/** Server SDKs have no field of their own for the anonymous id. A property may be anything: only a text is an id. */
function readAnonymousProperty (properties: Properties | null): string | null {
  const id = properties?.$anon_distinct_id
  return typeof id === 'string' ? id : null
}

/** An id is a string or a number. Absent, null and numbers beyond the range of doubles are null. */
function readId (value: unknown, attr: string): string | null {
  if (value == null) return null
  if (!isStringOrNumber(value)) throw invalid(attr, 'This field must be a string or a number.')
  const id = toDistinctId(value)
  return id === '' && value !== '' ? null : id
}

function isStringOrNumber (value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number' || isExactNumber(value)
}

function readGroups (value: unknown): Map<string, string> {
  const groups = new Map<string, string>()
  for (const [type, key] of Object.entries(readObject(value, 'groups') ?? {})) {
    if (key === null) continue
    if (!isStringOrNumber(key)) throw invalid(`groups__${type}`, 'A group key must be a string or a number.')
    groups.set(toGroupType(type), toGroupKey(key))
  }
  return groups
}

function readGroupProperties (value: unknown): Map<string, Properties> {
  const byType = new Map<string, Properties>()
  for (const [type, properties] of Object.entries(readObject(value, 'group_properties') ?? {})) {
    const read = readObject(properties, `group_properties__${type}`)
    if (read !== null) byType.set(toGroupType(type), read)
  }
  return byType
}

function readFlagKeys (body: Record<string, unknown>): Set<string> | null {
  const field = body.flag_keys_to_evaluate == null ? 'flag_keys' : 'flag_keys_to_evaluate'
  const value = body[field]
  if (value == null) return null
  if (!Array.isArray(value) || !value.every((key) => typeof key === 'string')) throw invalid(field, 'This field must be an array of strings.')
  return new Set(value)
}

function readObject (value: unknown, attr: string): Body | null {
  if (value == null) return null
  if (isEmptyArray(value)) return {}
  if (!isFields(value) || isExactNumber(value)) throw invalid(attr, 'This field must be an object.')
  return value
}

/** PHP serialises an object without fields as an empty array. */
function isEmptyArray (value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function invalid (attr: string, detail: string): HttpError {
  return invalidField(cutText(attr, 200), detail)
}
