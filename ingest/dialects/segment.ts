import { parseUuid } from '../normalise/uuid.ts'
import { type Dialect, type DialectRequest, fieldsOf, type Translated } from './dialect.ts'
import { isGiven, readContext, SEGMENT_GROUP_TYPE } from './segment-context.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * The messages of Segment's SDKs (docs/send/segment.md): `track`, `identify`, `page`, `screen`, `group` and `alias`,
 * each a row as PostHog's SDKs would have sent it. A user is the `userId`, or the `anonymousId` while there is none.
 */
export function createSegment ({ eventType }: DialectRequest): Dialect {
  return {
    answersEachEvent: false,
    translate (message) {
      const fields = fieldsOf(message)
      return translate(eventType === '' ? String(fields.type) : eventType, fields)
    }
  }
}

function translate (type: string, message: Fields): Translated {
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

function toEvent (type: string, message: Fields): MadeEvent | null {
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
