import { fieldsOf } from '../../engines/fields.ts'
import { parseUuid } from '../../engines/uuid.ts'
import type { Dialect, DialectRequest, Translated } from './dialect.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * The messages of Segment's SDKs (docs/send/connect-sdk.md): `track`, `identify`, `page`, `screen`, `group`, `alias`,
 * each a row as PostHog's SDKs would have sent it. A user is the `userId`, else the `anonymousId`.
 */
export function createSegment ({ eventType }: DialectRequest): Dialect {
  return {
    answersEachEvent: false,
    translate (message) {
      const fields = fieldsOf(message)
      return translate(eventType === '' ? fields.type : eventType, fields)
    }
  }
}

function translate (type: unknown, message: Fields): Translated {
  const { traits: _, ...untaken } = fieldsOf(message.context)
  const made = toEvent(type, message)
  if (made === null) return { event: null, drop: 'unknown_message_type', uuid: '' }
  const { userId, anonymousId, messageId, timestamp, originalTimestamp, sentAt } = message
  const event = {
    distinct_id: isGiven(userId) ? userId : anonymousId,
    uuid: typeof messageId === 'string' ? uuidOf(messageId) : undefined,
    timestamp: timestamp ?? originalTimestamp,
    sent_at: sentAt,
    ...made,
    properties: {
      ...readContext(type === 'identify' ? untaken : fieldsOf(message.context)),
      ...(isGiven(anonymousId) && { $device_id: anonymousId }),
      ...made.properties
    }
  }
  return { event, drop: null, uuid: '' }
}

interface MadeEvent {
  event: unknown
  distinct_id?: unknown
  properties: Record<string, unknown>
}

function toEvent (type: unknown, message: Fields): MadeEvent | null {
  const { userId, anonymousId, previousId, groupId, name, category } = message
  const properties = fieldsOf(message.properties)
  const traits = fieldsOf(message.traits)
  switch (type) {
    case 'track':
      return { event: message.event, properties }
    case 'page':
      return { event: '$pageview', properties: { ...namesOf(name, category), ...pageOf(properties), ...properties } }
    case 'screen':
      return {
        event: '$screen',
        properties: { ...namesOf(name, category), ...(isGiven(name) && { $screen_name: name }), ...properties }
      }
    case 'identify':
      // RudderStack's SDKs for pages and phones have them in the context alone.
      return {
        event: '$identify',
        properties: {
          $set: { ...fieldsOf(fieldsOf(message.context).traits), ...traits },
          ...(isGiven(userId) && isGiven(anonymousId) && { $anon_distinct_id: anonymousId })
        }
      }
    case 'group':
      return {
        event: '$groupidentify',
        properties: {
          $group_type: SEGMENT_GROUP_TYPE,
          $group_key: groupId,
          $group_set: traits,
          $groups: { [SEGMENT_GROUP_TYPE]: groupId }
        }
      }
    case 'alias':
      return { event: '$create_alias', properties: { alias: isGiven(previousId) ? previousId : anonymousId } }
    default:
      return null
  }
}

function namesOf (name: unknown, category: unknown): Fields {
  return { ...(isGiven(name) && { name }), ...(isGiven(category) && { category }) }
}

/** What Segment calls the page in the properties of a `page` message. */
function pageOf ({ url, path, referrer, title }: Fields): Fields {
  return {
    ...(isGiven(url) && { $current_url: url }),
    ...(isGiven(path) && { $pathname: path }),
    ...(isGiven(referrer) && { $referrer: referrer }),
    ...(isGiven(title) && { $title: title })
  }
}

/** Segment's SDKs put a prefix before the uuid of a message. Any other text is an id of its own. */
function uuidOf (messageId: string): string {
  const end = messageId.slice(-36)
  return messageId.length > 36 && parseUuid(end) !== null ? end : messageId
}

/** The type of all groups: messages name none. */
const SEGMENT_GROUP_TYPE = 'group'

/** Where a value of Segment's `context` goes: its path, and the property that PostHog's SDKs use for the same. */
const PROPERTIES: readonly [section: string, name: string, property: string][] = [
  ['library', 'name', '$lib'],
  ['library', 'version', '$lib_version'],
  ['page', 'url', '$current_url'],
  ['page', 'path', '$pathname'],
  ['page', 'referrer', '$referrer'],
  ['page', 'title', '$title'],
  ['campaign', 'name', 'utm_campaign'],
  ['campaign', 'source', 'utm_source'],
  ['campaign', 'medium', 'utm_medium'],
  ['campaign', 'term', 'utm_term'],
  ['campaign', 'content', 'utm_content'],
  ['app', 'name', '$app_name'],
  ['app', 'version', '$app_version'],
  ['app', 'build', '$app_build'],
  ['app', 'namespace', '$app_namespace'],
  ['device', 'manufacturer', '$device_manufacturer'],
  ['device', 'model', '$device_model'],
  ['device', 'name', '$device_name'],
  ['device', 'type', '$device_type'],
  ['os', 'name', '$os'],
  ['os', 'version', '$os_version'],
  ['screen', 'width', '$screen_width'],
  ['screen', 'height', '$screen_height']
]

const OWN: readonly [name: string, property: string][] = [
  ['ip', '$ip'],
  ['userAgent', '$raw_user_agent'],
  ['locale', '$locale'],
  ['timezone', '$timezone'],
  ['sessionId', '$session_id']
]

/**
 * The properties that the `context` of a message stands for. What has no property of its own is kept as it was sent, in
 * `$segment_context`: nothing is lost.
 */
function readContext ({ groupId, ...context }: Fields): Record<string, unknown> {
  const properties: Record<string, unknown> = isGiven(groupId) ? { $groups: { [SEGMENT_GROUP_TYPE]: groupId } } : {}
  const rest: Record<string, unknown> = { ...context }
  for (const [name, property] of OWN) {
    if (context[name] !== undefined && context[name] !== null) properties[property] = context[name]
    delete rest[name]
  }
  for (const [section, name, property] of PROPERTIES) {
    const value = fieldsOf(context[section])[name]
    if (value === undefined || value === null) continue
    properties[property] = value
    const { [name]: _, ...others } = fieldsOf(rest[section])
    rest[section] = others
  }
  for (const [name, value] of Object.entries(rest)) {
    if (typeof value === 'object' && value !== null && Object.keys(value).length === 0) delete rest[name]
  }
  if (Object.keys(rest).length > 0) properties.$segment_context = rest
  return properties
}

export function isGiven (value: unknown): boolean {
  return value !== undefined && value !== null && value !== ''
}
