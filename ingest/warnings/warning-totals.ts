import type { Logger } from '../../platform/logger.ts'
import {
  type DroppedEvent, MAX_DROPS_PER_MINUTE, MAX_SAMPLES, minuteOf, NOT_STORED, sourceOf, type WarningReason,
  type WarningSample, type WarningsMessage, type WarningTotal
} from '../../schema/wire/ingestion-warnings.ts'
import { WARNINGS_SUBJECT } from '../../schema/wire/streams.ts'
import type { RequestWarnings, Warned } from '../event.ts'
import type { Publish } from '../publish/acknowledged-publisher.ts'

export interface WarningTotalsOptions {
  /** Id of this process, different after each start: its totals begin at 0. */
  source: string
  publish: Publish
  nextMessageId: () => string
  logger: Logger
  /** Epoch milliseconds. */
  now: () => number
}

/** Shortest pause between two messages, in milliseconds: a sender of bad events cannot make more of them. */
const PAUSE_MS = 100

/** Batching delay of totals that nobody waits for, in milliseconds. */
const UNAWAITED_MS = 1000

/** Totals of one message at most; with samples some hundred kilobytes. */
const TOTALS_PER_MESSAGE = 100

/** Totals, and dropped events, that wait while neither stream nor spool takes them; the oldest are given up beyond. */
const MAX_WAITING = 10_000

const DURABLE = Promise.resolve()

/**
 * Pause between two samples of a total beyond the first ones, in milliseconds: whoever watches live events sees a
 * dropped event of each reason every second.
 */
const SAMPLE_EVERY_MS = 1000

/** A running total, how many of its samples have been published, and when it got the last one. */
interface Entry {
  total: WarningTotal
  published: number
  sampledAt: number
}

/**
 * Counts the warnings of a process by project, reason and minute, and publishes the running totals.
 *
 * A request that is answered with 200 waits until its warnings are durable, as it waits for its events: no crash
 * forgets why an acknowledged event is not stored. Totals of refused requests, and of events that a rule changed,
 * follow within a second; a killed process loses those of its last second.
 */
export class WarningTotals {
  readonly #options: WarningTotalsOptions
  #minute = 0
  /** Totals of the current minute. */
  #current = new Map<string, Entry>()
  /** Totals that changed since they were published. */
  readonly #waiting = new Set<Entry>()
  /** Dropped events that were not published yet. */
  #drops: DroppedEvent[] = []
  /** Dropped events that were named in the current minute. */
  #dropsOfMinute = 0
  /** Requests that wait for the next messages. */
  #requests: PromiseWithResolvers<void> | null = null
  #sending: Promise<void> | null = null
  #sentAt = -Infinity
  #timer: NodeJS.Timeout | null = null
  #dueAt = Infinity

  constructor (options: WarningTotalsOptions) {
    this.#options = options
  }

  /** Counts the warnings of a request; resolves when those about lost data are durable. */
  add (projectId: number, { counts, drops }: RequestWarnings): Promise<void> {
    for (const { count, samples, ...warned } of counts) {
      const entry = this.#count(projectId, warned, count)
      for (const sample of samples) this.#addSample(entry, () => sample)
    }
    // Nothing is missing in the table because of a rule that changes events, so nobody waits for its count.
    if (counts.every(({ reason }) => reason === 'rule_changed')) {
      this.#sendWithin(UNAWAITED_MS)
      return DURABLE
    }
    const named = drops.slice(0, MAX_DROPS_PER_MINUTE - this.#dropsOfMinute)
    this.#dropsOfMinute += named.length
    for (const drop of named) this.#drops.push({ projectId, ...drop })
    this.#requests ??= Promise.withResolvers<void>()
    this.#sendWithin(0)
    return this.#requests.promise
  }

  /** Counts a refused request. */
  addRefused (projectId: number, reason: WarningReason, describe: () => WarningSample): void {
    this.#addSample(this.#count(projectId, { reason }, 1), describe)
    this.#sendWithin(UNAWAITED_MS)
  }

  /** Publishes what waits. */
  async close (): Promise<void> {
    await this.#sending
    await this.#send()
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #count (projectId: number, warned: Warned, events: number): Entry {
    // A clock that was set back must not open a minute again: its totals would begin at 0 once more.
    const minute = minuteOf(this.#options.now())
    if (minute > this.#minute) {
      this.#minute = minute
      this.#current = new Map()
      this.#dropsOfMinute = 0
    }
    const key = sourceOf(`${projectId}:${warned.reason}`, warned)
    let entry = this.#current.get(key)
    if (entry === undefined) {
      const total = { projectId, ...warned, minute: this.#minute, count: 0, samples: [] }
      this.#current.set(key, entry = { total, published: 0, sampledAt: -Infinity })
    }
    entry.total.count += events
    this.#waiting.add(entry)
    return entry
  }

  #addSample (entry: Entry, describe: () => WarningSample): void {
    const now = this.#options.now()
    const { samples, reason } = entry.total
    const isDue = NOT_STORED.has(reason) && now - entry.sampledAt >= SAMPLE_EVERY_MS
    if (samples.length >= MAX_SAMPLES && !isDue) return
    entry.sampledAt = now
    samples.push(describe())
  }

  #sendWithin (ms: number): void {
    const now = performance.now()
    const at = Math.max(now + ms, this.#sentAt + PAUSE_MS)
    if (this.#sending !== null || this.#dueAt <= at) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#dueAt = at
    this.#timer = setTimeout(() => { void this.#send() }, at - now)
  }

  /** Never rejects: a failure reaches the requests, and the totals wait for the next message. */
  async #send (): Promise<void> {
    this.#timer = null
    this.#dueAt = Infinity
    const requests = this.#requests
    this.#requests = null
    const entries = [...this.#waiting]
    this.#waiting.clear()
    const drops = this.#drops
    this.#drops = []
    this.#sentAt = performance.now()
    this.#sending = this.#publish(entries, drops).then(() => requests?.resolve(), (error: unknown) => {
      this.#putBack(entries)
      this.#drops = [...drops, ...this.#drops].slice(-MAX_WAITING)
      requests?.reject(error)
    })
    await this.#sending
    this.#sending = null
    if (this.#requests !== null) this.#sendWithin(0)
    else if (this.#waiting.size > 0) this.#sendWithin(UNAWAITED_MS)
  }

  /** @param drops  Travel with the first message: each belongs to one of the totals. */
  async #publish (entries: readonly Entry[], drops: readonly DroppedEvent[]): Promise<void> {
    const { source, publish, nextMessageId } = this.#options
    for (let at = 0; at < entries.length; at += TOTALS_PER_MESSAGE) {
      const some = entries.slice(at, at + TOTALS_PER_MESSAGE)
      const lengths = some.map(({ total }) => total.samples.length)
      const totals = some.map(({ total, published }) => ({ ...total, samples: total.samples.slice(published) }))
      const isFirst = at === 0 && drops.length > 0
      const message: WarningsMessage = { source, totals, ...(isFirst ? { drops: [...drops] } : {}) }
      const payload = Buffer.from(JSON.stringify(message))
      await publish({ subject: WARNINGS_SUBJECT, id: nextMessageId(), headers: {}, payload })
      some.forEach((entry, index) => { entry.published = Math.max(entry.published, lengths[index] as number) })
    }
  }

  #putBack (entries: readonly Entry[]): void {
    for (const entry of entries) this.#waiting.add(entry)
    const excess = this.#waiting.size - MAX_WAITING
    if (excess <= 0) return
    for (const entry of [...this.#waiting].slice(0, excess)) this.#waiting.delete(entry)
    this.#options.logger.error({ totals: excess }, 'neither stream nor spool accepts ingestion warnings; discarding the oldest counts')
  }
}
