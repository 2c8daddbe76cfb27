import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { cutText, toStorableText } from '../../engines/body/storable-text.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import { MAX_SAMPLE_TEXT, type WarningSample } from '../../schema/wire/ingestion-warnings.ts'
import type { ArrivedEvent } from '../../schema/wire/live-feed.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { isCookieless } from '../normalise/cookieless.ts'
import { type Outcome, PROMOTED_PROPERTIES, type RequestContext } from '../event.ts'
import { formatUuid } from '../../engines/uuid.ts'

/** An event that went through ingest. */
interface Arrival {
  /** As it was sent, whatever it is. */
  sent: unknown
  outcome: Outcome
  apiKey: string
  context: RequestContext
}

/** Characters of an event as sent that are shown. */
const MAX_SENT = 16_384

/** Characters of a key that are shown: enough to tell keys apart, too few to use one. */
const KEY_CHARACTERS = 8

const LIB = PROMOTED_PROPERTIES.indexOf('$lib')
const LIB_VERSION = PROMOTED_PROPERTIES.indexOf('$lib_version')

/**
 * Describes an event for those who watch.
 *
 * @param options.hidesSent  Leaves its JSON out, and says that it has some.
 */
export function describeArrival (
  { sent, outcome, apiKey, context }: Arrival,
  { hidesSent }: { hidesSent: boolean }
): ArrivedEvent {
  const common = {
    at: context.receivedAt,
    key: cutKey(apiKey),
    drop: outcome.kind === 'dropped' ? outcome.reason : null,
    isQuarantined: outcome.kind === 'quarantined',
    ...showSent(sent, outcome, hidesSent ? null : context)
  }
  if (outcome.kind === 'dropped') return { ...common, ...describeSent(sent) }
  const { row } = outcome
  return {
    ...common,
    event: row.event,
    distinctId: row.distinctId,
    uuid: formatUuid(row.uuid),
    lib: row.promoted[LIB] ?? '',
    libVersion: row.promoted[LIB_VERSION] ?? ''
  }
}

/** What an event says of itself, whatever was sent in its place: storable texts, empty where there is nothing. */
export function describeSent (sent: unknown): Omit<WarningSample, 'receivedAt' | 'value'> {
  const fields = fieldsOf(sent)
  const properties = fieldsOf(fields.properties)
  return {
    event: toSampleText(fields.event),
    distinctId: toSampleText(distinctIdOf(sent)),
    uuid: toSampleText(fields.uuid),
    lib: toSampleText(properties.$lib),
    libVersion: toSampleText(properties.$lib_version)
  }
}

/** The distinct id of an event as sent; empty when it has none. */
export function distinctIdOf (sent: unknown): string {
  const fields = fieldsOf(sent)
  return toDistinctId(fields.distinct_id ?? fields.$distinct_id ?? fieldsOf(fields.properties).distinct_id)
}

/** A text is itself, absent is empty, anything else its JSON. */
export function toSampleText (value: unknown): string {
  if (value === undefined) return ''
  return toStorableText(cutText(typeof value === 'string' ? value : stringifyJson(value), MAX_SAMPLE_TEXT))
}

/**
 * The event as sent, unless that is too much: then how much it is.
 *
 * @param context  Null: it is not shown.
 */
function showSent (
  sent: unknown, outcome: Outcome, context: RequestContext | null
): { sent: string, sentCharacters: number } {
  const stored = outcome.kind === 'dropped' ? null : outcome.row.properties
  const known = stored?.length ?? 0
  if (known > MAX_SENT * 4 || context === null) return { sent: '', sentCharacters: Math.max(known, 1) }
  // What a rule keeps out is shown to nobody.
  const isRuled = outcome.changedBy.length > 0 || (outcome.kind === 'dropped' && outcome.rule !== null)
  const text = isRuled ? stored ?? '{}' : stringifyJson(withoutAddress(sent, context))
  const shown = text.slice(0, MAX_SENT)
  return { sent: toStorableText(shown), sentCharacters: shown.length < text.length ? text.length : 0 }
}

/** Leaves out addresses that a project does not keep, and what a page without cookies tells of its visitor. */
function withoutAddress (sent: unknown, { project }: RequestContext): unknown {
  const fields = fieldsOf(sent)
  const properties = fieldsOf(fields.properties)
  const id = fields.distinct_id ?? properties.distinct_id
  if (!project.anonymizeIps && !isCookieless(typeof id === 'string' ? id : '', properties)) return sent
  const shown: Record<string, unknown> = { ...fields }
  for (const name of ['properties', 'context']) {
    if (fields[name] !== fieldsOf(fields[name])) continue
    const { $ip: _, $raw_user_agent: __, ip: ___, userAgent: ____, ...rest } = fieldsOf(fields[name])
    shown[name] = rest
  }
  return shown
}

function cutKey (key: string): string {
  return key.length > KEY_CHARACTERS ? `${key.slice(0, KEY_CHARACTERS)}…` : key
}
