/** Warnings about events that are stored, but not in all as they were sent. */
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { MAX_DISTINCT_ID_LENGTH, MAX_GROUP_KEY_LENGTH, MAX_NAME_LENGTH } from '../../schema/wire/identity.ts'
import { isLonger, isStorableText, REPLACEMENT } from '../../engines/body/storable-text.ts'
import { GROUP_TYPE_SEPARATOR } from '../../schema/wire/event-row.ts'
import type { WarningReason } from '../../schema/wire/ingestion-warnings.ts'
import type { EventRow, EventWarning, SentEvent } from '../event.ts'
import type { CookielessEvent } from '../normalise/cookieless.ts'
import type { ReadProperties } from '../normalise/read-properties.ts'
import { whyReplaced } from '../normalise/timestamps.ts'
import { parseUuid, type UuidWords } from '../../engines/uuid.ts'

/** An event as it came, and what was made of it. */
interface NormalisedParts {
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
  /** Found so far; most events have none, and make no list. */
  warnings: readonly EventWarning[]
}

/**
 * Warns of everything that was replaced or cut. Costs some comparisons for an event that is stored as it came.
 *
 * @param isTextReplaced  The body was not UTF-8: see `RequestContext`.
 */
export function changeWarnings (found: NormalisedParts, isTextReplaced: boolean): readonly EventWarning[] {
  const { sent, row, read, replaced, missing, deep } = found
  if (replaced) warn(found, whyReplaced(sent.timestamp, row.timestamp), () => sent.timestamp ?? sent.offset)
  if (missing !== undefined) warn(found, 'visitor_unknown', () => `no ${missing}`)
  if (mayBeDerived(row.uuid) && isDerived(sent.uuid)) warn(found, 'uuid_invalid', () => sent.uuid)
  warnOfTexts(found, isTextReplaced)
  if (row.event.length < sent.event.length) warn(found, 'event_name_cut', () => sent.event)
  if (row.distinctId.length >= MAX_DISTINCT_ID_LENGTH) {
    const distinctId = sentId(found)
    if (textOf(distinctId).length > row.distinctId.length) warn(found, 'distinct_id_cut', () => distinctId)
  }
  if (row.event.charCodeAt(0) === DOLLAR) warnOfOtherIds(found)
  if (row.groups.length > 0) warnOfGroups(found)
  if (read.cut !== null) warn(found, 'column_cut', () => read.cut)
  if (deep.length > 0) warn(found, 'property_too_deep', () => deep.join(', '))
  if (read.undescribed !== null) warn(found, 'property_not_described', () => read.undescribed)
  if (read.beyond !== null) warn(found, 'too_many_names', () => read.beyond)
  return found.warnings
}

function warn (found: NormalisedParts, reason: WarningReason, value: () => unknown): void {
  found.warnings = [...found.warnings, { reason, value }]
}

/** Warns if the stored text differs from the sent one, nearly always by one comparison. */
function warnOfTexts (found: NormalisedParts, isTextReplaced: boolean): void {
  const { sent, row, read } = found
  if (isTextReplaced && warnOfBytes(found)) return
  if (row.event !== sent.event) warnIfReplaced(found, sent.event)
  const distinctId = sentId(found)
  if (row.distinctId !== distinctId) warnIfReplaced(found, distinctId)
  if (read.replaced !== null) warn(found, 'text_replaced', () => read.replaced)
  // Their JSON keeps a NUL as an escape, and no half of a surrogate pair.
  if (row.properties.includes(REPLACEMENT)) {
    const name = findReplaced(found.properties, (text) => !text.isWellFormed())
    if (name !== undefined) warn(found, 'text_replaced', () => `in the property ${name}`)
  }
}

/** An event of a body that is not UTF-8: U+FFFD in it was most likely something else. */
function warnOfBytes (found: NormalisedParts): boolean {
  const { sent, row, properties } = found
  const text = [sent.event, sentId(found)].find((each) => typeof each === 'string' && each.includes(REPLACEMENT))
  if (text === undefined && !row.properties.includes(REPLACEMENT)) return false
  warn(found, 'text_replaced', () =>
    text ?? `in the property ${findReplaced(properties, (each) => each.includes(REPLACEMENT))}, which is not UTF-8`)
  return true
}

/** Texts beside the id of the event, of persons and groups, by the name of the event. */
const OTHER_IDS: Readonly<Record<string, readonly string[] | undefined>> = {
  $identify: ['$anon_distinct_id'], $create_alias: ['alias'], $merge_dangerously: ['alias'], $groupidentify: ['$group_type', '$group_key']
}

const DOLLAR = 36

function warnOfOtherIds (found: NormalisedParts): void {
  const { properties, row } = found
  if (!Object.hasOwn(OTHER_IDS, row.event)) return
  for (const name of OTHER_IDS[row.event] ?? []) {
    const text = textOf(properties[name])
    warnIfReplaced(found, text)
    const isOfGroup = row.event === '$groupidentify'
    if (isLonger(text, name === '$group_key' ? MAX_GROUP_KEY_LENGTH : MAX_DISTINCT_ID_LENGTH)) {
      warn(found, isOfGroup ? 'group_cut' : 'distinct_id_cut', () => text)
    }
  }
}

function warnIfReplaced (found: NormalisedParts, text: unknown): void {
  if (typeof text === 'string' && !isStorableText(text)) warn(found, 'text_replaced', () => text)
}

/** The first property whose name or value has a text that is replaced. */
function findReplaced (
  properties: Readonly<Record<string, unknown>>, isReplaced: (text: string) => boolean
): string | undefined {
  return Object.keys(properties).find((name) => isReplaced(name) || holdsText(properties[name], isReplaced))
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

function warnOfGroups (found: NormalisedParts): void {
  const { properties, row } = found
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
  if (replaced !== null) warn(found, 'text_replaced', () => replaced)
  if (cut !== null) warn(found, 'group_cut', () => cut)
  if (given > row.groups.length / 2) warn(found, 'too_many_groups', () => `${given} groups`)
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
