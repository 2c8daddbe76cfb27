import { stringifyJson } from '../../http-body/stringify-json.ts'
import type { SchemaFailure } from '../../platform/event-schemas/evaluation.ts'
import { toDistinctId } from '../../platform/identity.ts'
import { cutText, toStorableText } from '../../platform/storable-text.ts'
import { FINGERPRINT_BYTES, type FingerprintKey, FingerprintWriter } from '../../schema/frame-message.ts'
import type { ArrivedEvent, Watch } from '../../schema/live-feed.ts'
import { isCookieless } from '../normalise/cookieless.ts'
import { type EventRow, PROMOTED_PROPERTIES } from '../normalise/event-row.ts'
import { formatUuid } from '../normalise/uuid.ts'
import type { RequestContext } from './envelope.ts'
import type { DropReason } from './ingest-counts.ts'
import type { EventSink } from './take-event.ts'

/** What watches saw between two reports of a process, or in one large body; crosses threads. */
export type Arrivals = { watchId: string, matched: number, events: ArrivedEvent[] }[]

/** An event that went through ingest. */
export interface Arrival {
  /** As it was sent, whatever it is. */
  sent: unknown
  /** Null when it was dropped. */
  row: EventRow | null
  isQuarantined: boolean
  drop: DropReason | null
  apiKey: string
  context: RequestContext
}

/** Events described between two reports, of all watches together; others are counted. It bounds what watching costs. */
const MAX_EVENTS = 50

/** Characters of an event as sent that are shown, and of them between two reports. */
const MAX_SENT = 16_384
const MAX_SENT_TOGETHER = 524_288

/** Characters of names and ids of dropped events, which nothing has bounded yet. */
const MAX_TEXT = 400

/** Characters of a key that are shown: enough to tell keys apart, too few to use one. */
const KEY_CHARACTERS = 8

const LIB = PROMOTED_PROPERTIES.indexOf('$lib')
const LIB_VERSION = PROMOTED_PROPERTIES.indexOf('$lib_version')

interface Seen { watch: Watch, matched: number, events: ArrivedEvent[] }

/** Collects events for those who watch them: all are counted, some are described. */
export class ArrivalCollector {
  readonly #fingerprintKey: () => FingerprintKey | null
  #seen: Seen[] = []
  #events = 0
  #characters = 0

  constructor (fingerprintKey: () => FingerprintKey | null) {
    this.#fingerprintKey = fingerprintKey
  }

  get watches (): Watch[] {
    return this.#seen.map(({ watch }) => watch)
  }

  /** Which events to collect from now on. */
  setWatches (watches: readonly Watch[]): void {
    const known = new Map(this.#seen.map((seen) => [seen.watch.id, seen]))
    this.#seen = watches.map((watch) => ({ ...(known.get(watch.id) ?? { matched: 0, events: [] }), watch }))
  }

  isWatched (projectId: number): boolean {
    return this.#seen.some(({ watch }) => watch.project === projectId)
  }

  /** Takes an event of a project that is watched. */
  note (arrival: Arrival): void {
    const { row, context } = arrival
    let described: ArrivedEvent | undefined
    for (const seen of this.#seen) {
      const { project, event, distinctId } = seen.watch
      if (project !== context.project.id) continue
      // Dropped events have whatever name and id was sent, so they are described to be compared.
      if (event !== '' || distinctId !== '') {
        const { event: name, distinctId: id } = row ?? (described ??= this.#describe(arrival))
        if ((event !== '' && event !== name) || (distinctId !== '' && distinctId !== id)) continue
      }
      seen.matched++
      if (this.#events >= MAX_EVENTS) continue
      this.#events++
      seen.events.push(described ??= this.#describe(arrival))
    }
  }

  /** Adds what a thread collected. */
  add (arrivals: Arrivals): void {
    for (const { watchId, matched, events } of arrivals) {
      const seen = this.#seen.find(({ watch }) => watch.id === watchId)
      if (seen === undefined) continue
      seen.matched += matched
      const room = MAX_EVENTS - this.#events
      seen.events.push(...events.slice(0, room))
      this.#events += Math.min(room, events.length)
    }
  }

  /** Takes what was collected, and begins again. */
  take (): Arrivals {
    const taken = this.#seen.map(({ watch, matched, events }) => ({ watchId: watch.id, matched, events }))
    for (const seen of this.#seen) Object.assign(seen, { matched: 0, events: [] })
    this.#events = 0
    this.#characters = 0
    return taken
  }

  #describe ({ sent, row, isQuarantined, drop, apiKey, context }: Arrival): ArrivedEvent {
    const fields = fieldsOf(sent)
    const properties = fieldsOf(fields.properties)
    const common = {
      at: context.receivedAt, key: cutKey(apiKey), drop, isQuarantined, ...this.#showSent(sent, row, context)
    }
    if (row === null) {
      return {
        ...common,
        event: toText(fields.event),
        distinctId: toText(toDistinctId(fields.distinct_id ?? fields.$distinct_id ?? properties.distinct_id)),
        uuid: toText(fields.uuid),
        lib: toText(properties.$lib),
        libVersion: toText(properties.$lib_version),
        fingerprint: ''
      }
    }
    return {
      ...common,
      event: row.event,
      distinctId: row.distinctId,
      uuid: formatUuid(row.uuid),
      lib: row.promoted[LIB] ?? '',
      libVersion: row.promoted[LIB_VERSION] ?? '',
      fingerprint: fingerprintOf(row, this.#fingerprintKey())
    }
  }

  /** The event as sent, unless that is too much: then how much it is. */
  #showSent (sent: unknown, row: EventRow | null, context: RequestContext): { sent: string, sentCharacters: number } {
    const known = row?.properties.length ?? 0
    if (known > MAX_SENT * 4 || this.#characters >= MAX_SENT_TOGETHER) return { sent: '', sentCharacters: Math.max(known, 1) }
    // What a rule keeps out is shown to nobody.
    const text = context.ruled === true ? row?.properties ?? '{}' : stringifyJson(withoutAddress(sent, context))
    const shown = text.slice(0, MAX_SENT)
    this.#characters += shown.length
    return { sent: toStorableText(shown), sentCharacters: shown.length < text.length ? text.length : 0 }
  }
}

/** Hands events on and remembers the row of the last one. */
export class WatchedSink implements EventSink {
  row: EventRow | null = null
  readonly isAnnounced: EventSink['isAnnounced']
  readonly appendUpdate: EventSink['appendUpdate']
  readonly #sink: EventSink
  #isQuarantined = false

  constructor (sink: EventSink) {
    this.#sink = sink
    this.isAnnounced = sink.isAnnounced
    this.appendUpdate = (update) => sink.appendUpdate(update)
  }

  appendRow (row: EventRow, context: RequestContext): void {
    this.#sink.appendRow(row, context)
    this.row = row
  }

  quarantine (row: EventRow, failure: SchemaFailure, context: RequestContext): void {
    this.#sink.quarantine(row, failure, context)
    this.row = row
    this.#isQuarantined = true
    this.row = row
  }

  get messages (): number {
    return this.#sink.messages ?? 0
  }

  /** What came since the last call: no row when the event was dropped. */
  take (): Pick<Arrival, 'row' | 'isQuarantined'> {
    const taken = { row: this.row, isQuarantined: this.#isQuarantined }
    this.row = null
    this.#isQuarantined = false
    return taken
  }
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

let writer = new FingerprintWriter(null)
let writerKey: FingerprintKey | null = null

/** The fingerprint that the frame of the row will have. */
function fingerprintOf (row: EventRow, key: FingerprintKey | null): string {
  const { projectId, uuid, event, distinctId, timestamp } = row
  if (key !== writerKey) {
    writer = new FingerprintWriter(key)
    writerKey = key
  }
  const words = new DataView(new ArrayBuffer(16))
  words.setUint32(0, uuid.b, true)
  words.setUint32(4, uuid.a, true)
  words.setUint32(8, uuid.d, true)
  words.setUint32(12, uuid.c, true)
  const id = Buffer.from(distinctId)
  const bytes = Buffer.alloc(FINGERPRINT_BYTES)
  writer.write(new DataView(bytes.buffer, bytes.byteOffset), 0, {
    projectId, event, timestamp, uuid: words, uuidOffset: 0, distinctId: id, from: 0, to: id.length
  })
  return bytes.toString('hex')
}

function fieldsOf (value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : {}
}

/** A text is itself, absent is empty, anything else its JSON. */
function toText (value: unknown): string {
  if (value === undefined || value === null) return ''
  return toStorableText(cutText(typeof value === 'string' ? value : stringifyJson(value), MAX_TEXT))
}

function cutKey (key: string): string {
  return key.length > KEY_CHARACTERS ? `${key.slice(0, KEY_CHARACTERS)}…` : key
}
