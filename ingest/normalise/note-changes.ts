/** Warnings about events that are stored, but not in all as they were sent. */
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { MAX_DISTINCT_ID_LENGTH, MAX_GROUP_KEY_LENGTH, MAX_NAME_LENGTH } from '../../platform/identity.ts'
import { isLonger, isStorableText, REPLACEMENT } from '../../engines/body/storable-text.ts'
import { GROUP_TYPE_SEPARATOR } from '../../schema/wire/event-row.ts'
import type { EventRow, RequestContext, SentEvent, UuidWords } from '../event.ts'
import { noteWarning } from '../capture/request-warnings.ts'
import type { CookielessEvent } from './cookieless.ts'
import type { ReadProperties } from './read-properties.ts'
import { whyReplaced } from './timestamps.ts'
import { parseUuid } from './uuid.ts'

/** An event as it came, and what was made of it. */
export interface NormalisedParts {
  sent: SentEvent
  /** As stored. */
  properties: Readonly<Record<string, unknown>>
  row: EventRow
  read: ReadProperties
  /** The time is not the one that was sent. */
  replaced: boolean
  missing: CookielessEvent['missing']
  /** Names of the properties that are left out because they are nested too deep. */
  deep: readonly string[]
}

/** Notes everything that was replaced or cut. Costs some comparisons for an event that is stored as it came. */
export function noteChanges (parts: NormalisedParts, context: RequestContext): void {
  const { sent, row, read, replaced, missing, deep } = parts
  if (replaced) {
    noteWarning(context, whyReplaced(sent.timestamp, row.timestamp), sent, () => sent.timestamp ?? sent.offset)
  }
  if (missing !== undefined) noteWarning(context, 'visitor_unknown', sent, () => `no ${missing}`)
  if (mayBeDerived(row.uuid) && isDerived(sent.uuid)) noteWarning(context, 'uuid_invalid', sent, () => sent.uuid)
  noteReplacedTexts(parts, context)
  if (row.event.length < sent.event.length) noteWarning(context, 'event_name_cut', sent, () => sent.event)
  if (row.distinctId.length >= MAX_DISTINCT_ID_LENGTH) {
    const distinctId = sentId(parts)
    if (textOf(distinctId).length > row.distinctId.length) noteWarning(context, 'distinct_id_cut', sent, () => distinctId)
  }
  if (row.event.charCodeAt(0) === DOLLAR) noteOtherIds(parts, context)
  if (row.groups.length > 0) noteGroups(parts, context)
  if (read.cut !== null) noteWarning(context, 'column_cut', sent, () => read.cut)
  if (deep.length > 0) noteWarning(context, 'property_too_deep', sent, () => deep.join(', '))
  if (read.undescribed !== null) noteWarning(context, 'property_not_described', sent, () => read.undescribed)
  if (read.beyond !== null) noteWarning(context, 'too_many_names', sent, () => read.beyond)
}

/** What is stored is the text that was sent, or another one: nearly always this is decided by one comparison. */
function noteReplacedTexts (parts: NormalisedParts, context: RequestContext): void {
  const { sent, row, read } = parts
  if (context.isTextReplaced === true && noteNotUtf8(parts, context)) return
  if (row.event !== sent.event) noteIfReplaced(parts, context, sent.event)
  const distinctId = sentId(parts)
  if (row.distinctId !== distinctId) noteIfReplaced(parts, context, distinctId)
  if (read.replaced !== null) noteWarning(context, 'text_replaced', sent, () => read.replaced)
  // Their JSON keeps a NUL as an escape, and no half of a surrogate pair.
  if (row.properties.includes(REPLACEMENT)) {
    const name = findReplaced(parts.properties, isHalfPair)
    if (name !== undefined) noteWarning(context, 'text_replaced', sent, () => `in the property ${name}`)
  }
}

/** An event of a body that is not UTF-8: U+FFFD in it was most likely something else. */
function noteNotUtf8 (parts: NormalisedParts, context: RequestContext): boolean {
  const { sent, row, properties } = parts
  const text = [sent.event, sentId(parts)].find((each) => typeof each === 'string' && each.includes(REPLACEMENT))
  if (text === undefined && !row.properties.includes(REPLACEMENT)) return false
  noteWarning(context, 'text_replaced', sent, () =>
    text ?? `in the property ${findReplaced(properties, (each) => each.includes(REPLACEMENT))}, which is not UTF-8`)
  return true
}

/** Texts beside the id of the event, of persons and groups, by the name of the event. */
const OTHER_IDS: Readonly<Record<string, readonly string[] | undefined>> = {
  $identify: ['$anon_distinct_id'], $create_alias: ['alias'], $merge_dangerously: ['alias'], $groupidentify: ['$group_type', '$group_key']
}

const DOLLAR = 36

function noteOtherIds (parts: NormalisedParts, context: RequestContext): void {
  const { sent, properties, row } = parts
  if (!Object.hasOwn(OTHER_IDS, row.event)) return
  for (const name of OTHER_IDS[row.event] ?? []) {
    const text = textOf(properties[name])
    noteIfReplaced(parts, context, text)
    const isOfGroup = row.event === '$groupidentify'
    if (isLonger(text, name === '$group_key' ? MAX_GROUP_KEY_LENGTH : MAX_DISTINCT_ID_LENGTH)) {
      noteWarning(context, isOfGroup ? 'group_cut' : 'distinct_id_cut', sent, () => text)
    }
  }
}

function noteIfReplaced ({ sent }: NormalisedParts, context: RequestContext, text: unknown): void {
  if (typeof text === 'string' && !isStorableText(text)) noteWarning(context, 'text_replaced', sent, () => text)
}

/** The first property whose name or value has a text that is replaced. */
function findReplaced (
  properties: Readonly<Record<string, unknown>>, isReplaced: (text: string) => boolean
): string | undefined {
  return Object.keys(properties).find((name) => isReplaced(name) || holdsText(properties[name], isReplaced))
}

function isHalfPair (text: string): boolean {
  return !text.isWellFormed()
}

/** Works off a list instead of calling itself, because a value may be nested deeper than the stack. */
function holdsText (root: unknown, isWanted: (text: string) => boolean): boolean {
  const todo = [root]
  while (todo.length > 0) {
    const value = todo.pop()
    if (typeof value === 'string' && isWanted(value)) return true
    if (typeof value !== 'object' || value === null) continue
    for (const name in value) todo.push(name, (value as Record<string, unknown>)[name])
  }
  return false
}

function sentId ({ sent, properties }: NormalisedParts): unknown {
  return sent.distinct_id ?? sent.$distinct_id ?? properties.distinct_id
}

function noteGroups ({ sent, properties, row }: NormalisedParts, context: RequestContext): void {
  const groups = properties.$groups as Readonly<Record<string, unknown>>
  let given = 0
  let cut: string | null = null
  let replaced: string | null = null
  for (const type in groups) {
    const key = groups[type]
    const text = typeof key === 'string' ? key : textOf(key)
    if (type === '' || text === '') continue
    given++
    if (isLonger(type, MAX_NAME_LENGTH) || isLonger(text, MAX_GROUP_KEY_LENGTH)) cut ??= `${type}: ${text}`
    if (!isStorableText(type) || !isStorableText(text) || type.includes(GROUP_TYPE_SEPARATOR)) replaced ??= `${type}: ${text}`
  }
  if (replaced !== null) noteWarning(context, 'text_replaced', sent, () => replaced)
  if (cut !== null) noteWarning(context, 'group_cut', sent, () => cut)
  if (given > row.groups.length / 2) noteWarning(context, 'too_many_groups', sent, () => `${given} groups`)
}

/** Uuids made of a text are of version 5; nearly no SDK sends such. */
function mayBeDerived ({ b }: UuidWords): boolean {
  return ((b >>> 12) & 0xf) === 5
}

function isDerived (sent: unknown): boolean {
  return parseUuid(textOf(sent)) === null
}

function textOf (value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value : stringifyJson(value)
}
