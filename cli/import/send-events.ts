/** Sends events of an import to the capture route, in order of their files, until each is acknowledged. */
import { once } from 'node:events'
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import https from 'node:https'
import { text as readAll } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { type ImportedEvent, isOrdered } from '../../engines/import/imported-event.ts'
import { retryDelayMs } from '../../platform/intervals.ts'
import type { EventContent, EventKey } from './event-digest.ts'

/**
 * Maximum events and bytes of a request, whichever comes first. Ingest hands bodies larger than 256 KiB to a
 * worker thread, where an event costs it a third more.
 */
const MAX_EVENTS = 1000
const MAX_BYTES = 260_000

/** Concurrent requests of events that change no persons. */
const CONCURRENCY = 4

/** An import gives up when nothing was acknowledged for so long, in milliseconds. */
const PATIENCE_MS = 600_000

const REQUEST_TIMEOUT_MS = 60_000

export interface SenderOptions {
  url: string
  projectKey: string
  /** Whether events of the source change persons, or only what it says of persons. */
  personsFrom: 'events' | 'export'
  /** Events a second at most; 0: as fast as they are taken. */
  eventsPerSecond: number
  /** Called when all events up to this mark are acknowledged, with the number of events since the last call. */
  onAcknowledged: (mark: number, events: number) => void
  /** Called for an event that is too large even alone, with its mark; the import goes on without it. */
  onRefused?: (mark: number, event: EventContent, error: string) => void
}

export interface Sender {
  /** @returns a promise when the next one has to wait for room. @param mark  Never descending; see `onAcknowledged`. */
  add (event: ImportedEvent, mark: number): Promise<void> | undefined
  /** Resolves when everything is acknowledged, with the time of the server at the last answer, epoch milliseconds. */
  finish (): Promise<number>
}

/** Events that wait for more of them, or are under way. */
interface Batch {
  /** The body: texts of all events would be garbage that outlives the space for new objects. */
  bytes: Buffer
  /** With a comma behind each event. */
  used: number
  starts: number[]
  marks: number[]
  firstMark: number
}

/** Batches in the order of the files; those of different lanes overtake each other. */
interface Lane {
  /** Beginning of the body of each request. */
  opening: Buffer
  /** Requests under way at most. */
  limit: number
  open: Batch | null
  underWay: Map<Batch, Promise<void>>
}

const CLOSING = Buffer.from(']}')

/**
 * @throws from `add` and `finish`: {MillraceError} `MILLRACE_IMPORT_REFUSED` for an answer that stays the same when the
 *   request is repeated, `MILLRACE_IMPORT_GAVE_UP`.
 */
export function createSender (
  { url, projectKey, personsFrom, eventsPerSecond, onAcknowledged, onRefused = () => {} }: SenderOptions
): Sender {
  const target = new URL('/batch/', url)
  const post = createPost(target)
  // Persons change in the order in which requests arrive, so a retried one must not be overtaken.
  const ordered = createLane(projectKey, 1, true)
  const free = createLane(projectKey, CONCURRENCY, personsFrom === 'events')
  const lanes = [ordered, free]
  const spare: Buffer[] = []
  // At most those of a second: a slow import neither comes in bursts nor is silent between them.
  const mostEvents = Math.min(MAX_EVENTS, Math.ceil(eventsPerSecond) || MAX_EVENTS)
  let lastMark = 0
  let sendAt = performance.now()
  let answeredAt = 0
  let failure: unknown

  /** @returns a promise when there is no room for more. */
  function append (lane: Lane, text: string, room: number, mark: number): Promise<void> | undefined {
    if (lane.open === null) {
      const size = Math.max(MAX_BYTES, lane.opening.length + room)
      const bytes = (size === MAX_BYTES ? spare.pop() : undefined) ?? Buffer.allocUnsafeSlow(size)
      lane.open = { bytes, used: lane.opening.copy(bytes), starts: [], marks: [], firstMark: mark }
    }
    const { open: batch } = lane
    lastMark = mark
    batch.starts.push(batch.used)
    batch.marks.push(mark)
    batch.used += batch.bytes.write(text, batch.used)
    return batch.starts.length < mostEvents ? undefined : flushUpTo(batch)
  }

  /** An older batch that is not full would hold back what counts as acknowledged. */
  async function flushUpTo ({ firstMark }: Batch): Promise<void> {
    for (const lane of lanes) if (lane.open !== null && lane.open.firstMark <= firstMark) await flush(lane)
  }

  async function flush (lane: Lane): Promise<void> {
    const { open: batch, underWay } = lane
    if (batch === null) return
    if (eventsPerSecond > 0) {
      sendAt = Math.max(sendAt, performance.now()) + batch.starts.length / eventsPerSecond * 1000
      const waitMs = sendAt - performance.now()
      if (waitMs > 1) await sleep(waitMs)
    }
    while (underWay.size >= lane.limit) await Promise.race(underWay.values())
    if (failure !== undefined) throw failure
    lane.open = null
    underWay.set(batch, send({ post, target, onRefused }, lane, batch).then((time) => {
      answeredAt = Math.max(answeredAt, time)
      underWay.delete(batch)
      if (batch.bytes.length === MAX_BYTES) spare.push(batch.bytes)
      const waiting = lanes.flatMap(({ open, underWay }) => [...underWay.keys(), ...open === null ? [] : [open]])
      onAcknowledged(Math.min(lastMark, ...waiting.map(({ firstMark }) => firstMark - 1)), batch.starts.length)
    }, (error: unknown) => {
      failure ??= error
      underWay.delete(batch)
    }))
  }

  return {
    add (event, mark) {
      const text = toText(event)
      const lane = event.isOfPerson === true || isOrdered(event, personsFrom === 'events') ? ordered : free
      const room = Buffer.byteLength(text) + CLOSING.length
      const fits = lane.open === null || lane.open.used + room <= lane.open.bytes.length
      return fits ? append(lane, text, room, mark) : flush(lane).then(() => append(lane, text, room, mark))
    },
    async finish () {
      for (const lane of lanes) await flush(lane)
      await Promise.all(lanes.flatMap(({ underWay }) => [...underWay.values()]))
      if (failure !== undefined) throw failure
      return answeredAt
    }
  }
}

function createLane (projectKey: string, limit: number, changesPersons: boolean): Lane {
  const opening = `{"api_key":${JSON.stringify(projectKey)},"historical_migration":true,"process_person_profile":${String(changesPersons)},"batch":[`
  return { opening: Buffer.from(opening), limit, open: null, underWay: new Map() }
}

/**
 * Sends events of a batch until they are acknowledged.
 *
 * @returns the time of the server then, epoch milliseconds; 0 when it refused them all.
 */
async function send (
  way: { post: Post, target: URL } & Required<Pick<SenderOptions, 'onRefused'>>, lane: Lane, batch: Batch,
  from = 0, to = batch.starts.length
): Promise<number> {
  const { post, target, onRefused } = way
  const { bytes, starts, marks, used } = batch
  const isWhole = to - from === starts.length
  const body = isWhole
    ? bytes.subarray(0, used + 1)
    : Buffer.concat([lane.opening, bytes.subarray(starts[from], (starts[to] ?? used) - 1), CLOSING])
  if (isWhole) CLOSING.copy(bytes, used - 1)
  const givesUpAt = performance.now() + PATIENCE_MS
  for (let attempt = 0; ; attempt++) {
    const { status = 503, headers = {}, text = '' } = await post(body)
    if (status >= 200 && status < 300) return Date.parse(headers.date ?? '') || Date.now()
    // The limits of ingest, or of a proxy before it, may be below the defaults.
    if (status === 413) {
      const middle = Math.ceil((from + to) / 2)
      if (middle < to) {
        const at = await send(way, lane, batch, from, middle)
        return Math.max(at, await send(way, lane, batch, middle, to))
      }
      const text = bytes.toString('utf8', starts[from], (starts[to] ?? used) - 1)
      onRefused(marks[from] ?? 0, fromText(text), `refused as too large by ${target.href}`)
      return 0
    }
    throwIfFinal(target, { status, text }, givesUpAt)
    await sleep(Math.max(retryDelayMs(attempt), Number(headers['retry-after']) * 1000 || 0))
  }
}

/** In a list: with the comma behind it. */
function toText ({ uuid, event: name, distinct_id: id, timestamp, json }: EventContent): string {
  return `{"uuid":"${uuid}","event":${JSON.stringify(name)},"distinct_id":${JSON.stringify(id)},` +
    `"timestamp":"${new Date(timestamp).toISOString()}","properties":${json}},`
}

/** The event of such a text without the comma, its properties to the letter. */
function fromText (text: string): EventContent {
  const { timestamp, ...key }: EventKey & { timestamp: string } = JSON.parse(text)
  const event = { ...key, timestamp: Date.parse(timestamp), json: '' }
  return { ...event, json: text.slice(toText(event).length - '},'.length, -'}'.length) }
}

/** @throws {MillraceError} when repeating the request would not help, or has not for long. */
function throwIfFinal ({ href }: URL, { status, text }: { status: number, text: string }, givesUpAt: number): void {
  if (status < 500 && status !== 408 && status !== 429) {
    throw new MillraceError('MILLRACE_IMPORT_REFUSED', `${href} answered ${status}: ${text.slice(0, 300)}`)
  }
  if (performance.now() > givesUpAt) {
    throw new MillraceError('MILLRACE_IMPORT_GAVE_UP', `${href} accepted nothing for ${PATIENCE_MS / 60_000} minutes; run the same command to resume`)
  }
}

type Post = (body: Buffer) => Promise<{ status?: number, headers?: IncomingHttpHeaders, text?: string }>

/**
 * Sends bodies over connections that are kept. Not by `fetch`, which copies them.
 *
 * @returns nothing when the connection fails, or takes too long.
 */
function createPost (target: URL): Post {
  const { request: open, Agent } = target.protocol === 'https:' ? https : http
  const agent = new Agent({ keepAlive: true })
  return async (body) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.length }
    const request = open(target, { method: 'POST', agent, headers, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
    // One behind the answer, as to a body that is refused before its end.
    request.on('error', () => {})
    try {
      const answered = once(request, 'response')
      request.end(body)
      const [answer] = await answered as [IncomingMessage]
      return { status: Number(answer.statusCode), headers: answer.headers, text: await readAll(answer) }
    } catch {
      return {}
    }
  }
}
