import { stringifyShallowJson } from '../../engines/body/stringify-json.ts'
import { toDistinctId, toEventName, toGroupKey, toGroupType } from '../../schema/wire/identity.ts'
import { type CookielessEvent, isCookieless, type TakeCookieless } from './cookieless.ts'
import type { Enrich } from './enrich.ts'
import {
  drop, type Dropped, type EventRow, type EventWarning, NO_RULES, NO_WARNINGS, PROMOTED_IP, type RequestContext,
  type SentEvent
} from '../event.ts'
import { mergePersonProperties, toObject } from './persons-updates.ts'
import type { PropertyReader } from './read-properties.ts'
import { withoutDeepProperties } from '../../engines/body/property-depth.ts'
import { changeWarnings } from '../warnings/change-warnings.ts'
import { resolveTimestamp } from './timestamps.ts'
import type { ActiveRule } from '../../engines/rules/apply-rules.ts'
import type { EditAddress } from '../../engines/rules/compile-rule.ts'
import { enforceRulesAndQuota } from './enforce-rules-and-quota.ts'
import { parseTimestamp } from '../../engines/parse-timestamp.ts'
import { createUuidV7, readUuid, timeOfUuid } from '../../engines/uuid.ts'

/** Whatever the server allows, rows up to this many characters are taken. */
const SMALL_ROW = 131_072

/** Of one event. */
const MAX_GROUPS = 100

const NONE: readonly string[] = []

export interface NormalisedEvent {
  row: EventRow
  /** The properties as stored, for the steps that follow. */
  properties: Record<string, unknown>
  warnings: readonly EventWarning[]
  changedBy: readonly ActiveRule[]
}

export interface NormaliseDeps {
  readProperties: PropertyReader
  takeCookieless: TakeCookieless
  enrich: Enrich
  /** Bytes of the largest row that fits a message; depends on the server. */
  maxEventBytes: () => number
}

export type NormaliseEvent = (sent: SentEvent, context: RequestContext) => NormalisedEvent | Dropped

/**
 * Turns an event as SDKs send it into a row (docs/reference/contract/sdks.md 1.7 and 1.8): ids as text, a uuid, the
 * time it happened, groups, the promoted columns, and the description of its properties.
 *
 * The properties are stored as they were sent, unless a rule of the project changes them
 * (`enforce-rules-and-quota.ts`). Exceptions:
 * top-level `$set`, `$set_once` and `$unset` move into them;
 * `$ip` leaves them when the project does not store addresses, and with `$raw_user_agent` when the visitor has no
 * cookies (`cookieless.ts`); `$original_timestamp` is added when the time had to be replaced, and the place of the
 * address (`enrich.ts`), whose own properties replace no sent ones; and values nested too deep are left out.
 */
export function createNormaliseEvent (
  { readProperties, takeCookieless, enrich, maxEventBytes }: NormaliseDeps
): NormaliseEvent {
  return function normaliseEvent (sent, context) {
    if (isBlank(sent.event)) return drop('missing_event_name')
    let properties = toObject(sent.properties)
    let distinctId = toDistinctId(sent.distinct_id ?? sent.$distinct_id ?? properties.distinct_id)
    if (isBlank(distinctId)) return drop('missing_distinct_id')

    const sentUuid = readUuid(sent.uuid, context.project.id)
    const uuid = sentUuid ?? createUuidV7(context.receivedAt)
    const { time, replaced } = resolveTimestamp({
      timestamp: sent.timestamp,
      offset: sent.offset,
      uuidTime: sentUuid === null ? null : timeOfUuid(sentUuid),
      sentAt: properties.$ignore_sent_at === true ? null : context.sentAt ?? readSentAt(sent.sent_at),
      receivedAt: context.receivedAt,
      lib: properties.$lib,
      retryCount: context.retryCount,
      isAttemptTime: context.isAttemptTime
    })
    const { $ip: sentIp } = properties
    properties = mergePersonProperties(sent, properties)
    if (replaced) properties = { ...properties, $original_timestamp: sent.timestamp ?? null }
    const cookieless = isCookieless(distinctId, properties)
    const { isBot, place } = enrich(properties, cookieless, context)
    let missing: CookielessEvent['missing']
    if (cookieless) ({ distinctId, properties, missing } = takeCookieless({ distinctId, properties }, time, context))
    if (context.project.anonymizeIps && properties.$ip !== undefined) properties = withoutIp(properties)
    if (place !== null) properties = { ...place, ...properties }

    const event = toEventName(sent.event)
    let deep: readonly string[] = NONE
    let weight = 1
    let editAddress: EditAddress | null = null
    let changedBy = NO_RULES
    // Uuid, name, distinct id and time are final: rules must not give a repeated event another identity.
    if (context.project.rules !== undefined || (context.sampleRate ?? 1) < 1) {
      const enforced = enforceRulesAndQuota({ event, distinctId, properties, sentIp }, context)
      if (enforced.kind === 'dropped') return enforced
      ;({ properties, deep, weight, editAddress, changedBy } = enforced)
    }
    let read = readProperties(context.project.id, event, properties)
    if (read.isDeep) {
      ({ properties, dropped: deep } = withoutDeepProperties(properties))
      read = readProperties(context.project.id, event, properties)
    }
    const { types, promoted } = read
    if (promoted[PROMOTED_IP] === '' && !cookieless) {
      promoted[PROMOTED_IP] = editAddress === null ? context.ip : editAddress(context.ip)
    }
    const row: EventRow = {
      projectId: context.project.id,
      uuid,
      event,
      distinctId,
      timestamp: time,
      receivedAt: context.receivedAt,
      groups: toGroups(properties.$groups),
      properties: stringifyShallowJson(properties),
      propertyTypes: types,
      promoted,
      schemaVersion: 0,
      isBot,
      sampleWeight: weight
    }
    if (isTooLarge(row, maxEventBytes)) return drop('event_too_large', { changedBy })
    const parts = { sent, properties, row, read, replaced, missing, deep, warnings: NO_WARNINGS }
    return { row, properties, warnings: changeWarnings(parts, context.isTextReplaced === true), changedBy }
  }
}

/** Room for the promoted values, ids and groups of a row, all bounded, with three bytes a character. */
const OTHER_BYTES = 600_000

/** Whether the row does not fit a message, not counting on compression. */
function isTooLarge ({ properties, propertyTypes }: EventRow, maxEventBytes: () => number): boolean {
  const characters = properties.length + propertyTypes.length
  if (characters < SMALL_ROW) return false
  return Buffer.byteLength(properties) + Buffer.byteLength(propertyTypes) + OTHER_BYTES > maxEventBytes()
}

/** Blank names and ids identify nothing. */
function isBlank (text: string): boolean {
  return text.trim() === ''
}

/** When an event says by itself that it was sent. */
function readSentAt (value: unknown): number | null {
  return value === undefined || value === null ? null : parseTimestamp(value)
}

function withoutIp ({ $ip: _, ...properties }: Record<string, unknown>): Record<string, unknown> {
  return properties
}

function toGroups (value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return NONE
  const groups: string[] = []
  for (const [type, sentKey] of Object.entries(value)) {
    const key = toGroupKey(sentKey)
    if (type === '' || key === '') continue
    if (groups.length === 2 * MAX_GROUPS) break
    groups.push(toGroupType(type), key)
  }
  return groups
}
