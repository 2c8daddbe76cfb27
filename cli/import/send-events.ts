/** Sends events of an import to the capture route, in order of their files, until each is acknowledged. */
import { setTimeout as sleep } from 'node:timers/promises'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { ImportedEvent } from '../../engines/import/imported-event.ts'

/** A request is sent with so many events or bytes, whichever comes first: ingest is cheapest from about there. */
const MAX_EVENTS = 1000
const MAX_BYTES = 1_000_000

/** Concurrent requests of events that change no persons. */
const CONCURRENCY = 4

/** Pauses between attempts, in milliseconds. */
const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 15_000

/** An import gives up when nothing was acknowledged for so long, in milliseconds. */
const PATIENCE_MS = 600_000

const REQUEST_TIMEOUT_MS = 60_000

export interface SenderOptions {
  /** Base URL of ingest. */
  url: string
  /** The key of the project, which SDKs send. */
  projectKey: string
  /** Whether events of the source change persons, or only what it says of persons. */
  personsFrom: 'events' | 'export'
  /** Events a second at most; 0: as fast as they are taken. */
  eventsPerSecond: number
  /** Told when all events up to this mark are acknowledged. */
  onAcknowledged: (mark: number, events: number) => void
}

export interface Sender {
  /** Resolves when there is room for more. @param mark  Ascending; see `onAcknowledged`. */
  add (event: ImportedEvent, mark: number): Promise<void>
  /** Resolves when everything is acknowledged, with the time of the server at the last answer, epoch milliseconds. */
  finish (): Promise<number>
}

/**
 * @throws from `add` and `finish`: {MillraceError} `MILLRACE_IMPORT_REFUSED` for an answer that stays the same when the
 *   request is repeated, `MILLRACE_IMPORT_GAVE_UP`.
 */
export function createSender (
  { url, projectKey, personsFrom, eventsPerSecond, onAcknowledged }: SenderOptions
): Sender {
  const prefix = `{"api_key":${JSON.stringify(projectKey)},"historical_migration":true,"process_person_profile":`
  const target = new URL('/batch/', url)
  let texts: string[] = []
  let bytes = 0
  /** Of the events that wait. */
  let changesPersons = true
  let lastMark = 0
  let sendAt = performance.now()
  let answeredAt = 0
  /** In order, so that what is acknowledged has no gaps. */
  const underWay: { done: Promise<void>, mark: number, events: number }[] = []

  async function flush (): Promise<void> {
    if (texts.length === 0) return
    const batch = texts
    texts = []
    bytes = 0
    if (eventsPerSecond > 0) {
      sendAt = Math.max(sendAt, performance.now()) + batch.length / eventsPerSecond * 1000
      const waitMs = sendAt - performance.now()
      if (waitMs > 1) await sleep(waitMs)
    }
    // Persons change in the order in which requests arrive, so a retried one must not be overtaken.
    while (underWay.length >= (changesPersons ? 1 : CONCURRENCY)) await settleOldest()
    const done = post(batch, `${prefix}${String(changesPersons)},"batch":[`)
    // It is awaited in its turn.
    done.catch(() => {})
    underWay.push({ done, mark: lastMark, events: batch.length })
  }

  async function settleOldest (): Promise<void> {
    const [oldest] = underWay
    if (oldest === undefined) return
    await oldest.done
    underWay.shift()
    onAcknowledged(oldest.mark, oldest.events)
  }

  async function post (batch: readonly string[], opening: string): Promise<void> {
    const body = `${opening}${batch.join(',')}]}`
    const givesUpAt = performance.now() + PATIENCE_MS
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
      const answer = await fetch(target, {
        method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS)
      }).catch((error: unknown) => error as Error)
      if (answer instanceof Response) {
        const text = await answer.text().catch(() => '')
        if (answer.ok) {
          answeredAt = Math.max(answeredAt, Date.parse(answer.headers.get('date') ?? '') || Date.now())
          return
        }
        // The limits of ingest, or of a proxy before it, may be below the defaults.
        if (answer.status === 413 && batch.length > 1) {
          const half = Math.ceil(batch.length / 2)
          await post(batch.slice(0, half), opening)
          await post(batch.slice(half), opening)
          return
        }
        if (answer.status < 500 && answer.status !== 408 && answer.status !== 429) {
          throw new MillraceError('MILLRACE_IMPORT_REFUSED', `${target.href} answered ${answer.status}: ${text.slice(0, 300)}`)
        }
      }
      if (performance.now() > givesUpAt) {
        throw new MillraceError('MILLRACE_IMPORT_GAVE_UP', `${target.href} accepted nothing for ${PATIENCE_MS / 60_000} minutes; run the same command to resume`)
      }
      const told = answer instanceof Response ? Number(answer.headers.get('retry-after')) * 1000 : 0
      await sleep(Math.max(pause, told || 0))
    }
  }

  return {
    async add ({ isOfPerson = false, isAltered: _, timestamp, ...event }, mark) {
      const text = stringifyJson({ ...event, timestamp: new Date(timestamp).toISOString() })
      const changes = isOfPerson || personsFrom === 'events'
      if (bytes + text.length > MAX_BYTES || changes !== changesPersons) await flush()
      changesPersons = changes
      texts.push(text)
      bytes += text.length
      lastMark = mark
      if (texts.length === MAX_EVENTS) await flush()
    },
    async finish () {
      await flush()
      while (underWay.length > 0) await settleOldest()
      return answeredAt
    }
  }
}
