import type { Schema } from '../../api-types.ts'
import type { Scope } from '../../../schema/scopes.ts'
import { formatAgo, formatCount, formatCounted, formatZoned, showText } from '../format.ts'
import { explainDrop, remedyFor, splitReason } from './warning-words.ts'

export type Receipt = Schema<'Receipt'>

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** A page that says more about where an event is, or where that is changed. */
export interface Lead { to: string, title: string, scope: Scope }

/** Where an event is, as sentences with what to do. @param now  Epoch milliseconds. */
export function explainReceipt (receipt: Receipt, now: number): string {
  const { fate, stored, duplicates, dead_letter: letter, waiting, dropped, deleted } = receipt
  switch (fate) {
    case 'stored': {
      const times = duplicates?.count ?? 0
      const again = times === 0 ? '' : ` It came ${formatCounted(times, 'more time')}, and was counted once.`
      return `It is stored and visible to queries.${stored === null ? '' : ` Its time is ${formatZoned(stored.timestamp)}.`}${again}`
    }
    case 'dead_letter': return describeLetter(letter)
    case 'waiting': return describeWaiting(waiting, now)
    case 'dropped': return describeDropped(dropped?.reason ?? '')
    case 'deleted': return describeDeleted(deleted)
    default: return describeUnknown(receipt.may_be_in, receipt.searched)
  }
}

/** What does not meet its schema was held back by whoever wrote the schema; the rest could not be stored. */
function describeLetter (letter: Receipt['dead_letter']): string {
  if (letter === null) return 'It could not be stored, and is kept as a dead letter.'
  const why = letter.error === '' ? letter.reason : showText(letter.error)
  return letter.stage === 'schema'
    ? `It does not meet the schema of its event, and is kept as a dead letter: ${why}. Fix what sends it, or the schema, then replay it.`
    : `It could not be stored, and is kept as a dead letter: ${why}. Replay it when the cause is fixed.`
}

/** Events are stored half a second after they arrive: what waits longer waits for something. */
const WAITS_LONG_MS = 10_000

function describeWaiting (waiting: Receipt['waiting'], now: number): string {
  if (waiting === null) return 'It waits in the stream: nothing is lost.'
  const since = Date.parse(waiting.published_at)
  const long = now - since > WAITS_LONG_MS ? ' That is long: Health says what the pipeline waits for.' : ''
  const ahead = waiting.messages_ahead === 0 ? 'the first of its partition' : `with ${formatCounted(waiting.messages_ahead, 'message')} before it`
  return `It came ${formatAgo(waiting.published_at, now)} and waits in the stream, ${ahead}: nothing is lost.${long}`
}

function describeDropped (reason: string): string {
  const { name, rule } = splitReason(reason)
  const named = rule === null ? '' : ` The rule is called ${showText(rule, 100)}.`
  return `It was answered with 200, and cannot be replayed. ${explainDrop(name)}${named}`
}

export function nameOf ({ stored, waiting, dead_letter: letter }: Receipt): string {
  return stored?.event ?? waiting?.event ?? letter?.event ?? ''
}

function describeDeleted (deleted: Receipt['deleted']): string {
  switch (deleted?.why) {
    case 'person': return 'It was deleted with its person.'
    case 'retention': return deleted.was_stored === true ? 'Retention has removed it.' : 'If it was ever stored, retention has removed it.'
    default: return 'It was stored and has since been deleted, by hand or with its partition.'
  }
}

function describeUnknown (places: Receipt['may_be_in'], searched: Receipt['searched']): string {
  const rest = searched !== null && searched.messages < searched.of
    ? ` The stream was searched in part: ${formatCount(searched.messages)} of ${formatCounted(searched.of, 'message')}.`
    : ''
  if (places === null || places.length === 0) {
    return `Unknown event: it was never acknowledged, its drop is no longer on record, or it was stored and then deleted. Check the uuid, the project and the key.${rest}`
  }
  const names = places.map(({ where, process }) => `${WHERE[where]}${process === null ? '' : ` of ${process}`}`).join(', ')
  return `It is neither stored nor refused; it may be in ${names}.${rest}`
}

const WHERE = { spool: 'the spool', in_flight: 'the memory', stream: 'the stream' }

/** The parts of a receipt that its fate fills, flat, for a list of facts. */
export function listFacts (receipt: Receipt): { name: string, value: string }[] {
  const parts = [receipt.stored, receipt.dead_letter, receipt.waiting, receipt.dropped, receipt.deleted]
  return parts.flatMap((part) => part === null ? [] : Object.entries(part))
    .filter(([, value]) => value !== null && value !== '' && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => ({
      name: name.replaceAll('_', ' '),
      value: Array.isArray(value) ? value.join(', ') : typeof value === 'number' ? formatCount(value) : String(value)
    }))
}

/** Where to go from a receipt. @param home  `/projects/<id>`. */
export function leadsOf ({ dead_letter: letter, waiting, dropped }: Receipt, home: string): Lead[] {
  if (letter !== null) {
    const { id, stage, event } = letter
    return [
      { to: `${home}/dead-letters/${id}`, title: `Dead letter ${id}`, scope: 'dead_letter:read' },
      ...stage === 'schema' && event !== null
        ? [{ to: `${home}/schemas?search=${encodeURIComponent(event)}`, title: `Schema of ${showText(event, 60)}`, scope: 'event_definition:read' as const }]
        : []
    ]
  }
  if (waiting !== null) return [{ to: '/health', title: 'Health', scope: 'project:read' }]
  if (dropped === null) return []
  const { name, rule } = splitReason(dropped.reason)
  switch (remedyFor(name).screen) {
    case 'rules': return [rule === null
      ? { to: `${home}/rules`, title: 'Rules', scope: 'event_definition:read' }
      : { to: `${home}/rules?name=${encodeURIComponent(rule)}`, title: `Rule ${showText(rule, 60)}`, scope: 'event_definition:read' }]
    case 'schemas': return [{ to: `${home}/schemas`, title: 'Schemas', scope: 'event_definition:read' }]
    case 'usage': return [{ to: `${home}/usage`, title: 'Usage', scope: 'project:read' }]
    default: return []
  }
}
