/** What the ingest processes say about themselves, as one pipeline process sees it. */
import { createInbox, type Msg, type QueuedIterator } from '@nats-io/transport-node'
import { JetStreamApiError } from '@nats-io/jetstream'
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import {
  ANNOUNCE_AHEAD_MS, ANNOUNCED_KEY, ASK_SUBJECT, type IngestPosition, type IngestPresence, presenceKey
} from '../../schema/wire/ingest-presence.ts'

/** The entry of a spool folder, with the last answer of its process. */
export interface IngestEntry {
  key: string
  presence: IngestPresence
  /** When it reported last, epoch milliseconds of the clock of NATS. */
  heardAt: number
  /** When its process answered last, of this process' monotonic clock; -Infinity: not since it has the entry. */
  answeredAt: number
}

/** How long an own announcement may take to come back, in milliseconds. */
const SEEN_WITHIN_MS = 2000

const WATCH_AGAIN_MS = 1000

/** A process that answers at all does so within a few milliseconds; where it was before is true as well. */
const ANSWER_WITHIN_MS = 100

/** A process that has not answered for so long, in milliseconds, is asked and not waited for. */
const WAITED_FOR_MS = 3000

/** JetStream API error "wrong last sequence": another process has written the key since it was read. */
const WRONG_LAST_SEQUENCE = 10071

/**
 * Watches the bucket of ingest, and asks its processes where they are. What was written to the bucket arrives in the
 * order of writing; that is what proofs rest on.
 *
 * An entry leaves only when it was removed on purpose. One that vanished with the bucket still counts, for as long as
 * this process lives: an empty bucket must not look like no ingest.
 */
export class IngestEntries {
  readonly #connection: NatsConnection
  readonly #bucket: KV
  readonly #logger: Logger
  readonly #inbox = createInbox()
  readonly #entries = new Map<string, IngestEntry>()
  #announced = { through: 0, revision: 0 }
  /** What this process announced last, and the highest that others did. */
  #announcedHere = 0
  #announcedByOthers = 0
  /** Everything up to this revision was seen. */
  #revision = 0
  readonly #clock = new ServerClockEstimate()
  #hasRemovals = false
  #waiting: { revision: number, resolve: () => void }[] = []
  /** Keys whose answers are waited for. */
  #asked = new Set<string>()
  #onAnswered: (() => void) | null = null
  #watch: QueuedIterator<KvWatchEntry> | null = null
  #isClosed = false
  #isCurrent = false

  constructor (connection: NatsConnection, bucket: KV, logger: Logger) {
    this.#connection = connection
    this.#bucket = bucket
    this.#logger = logger
    connection.subscribe(this.#inbox, { callback: (error, answer) => { if (error === null) this.#hear(answer) } })
    void this.#watchAll()
  }

  get all (): IngestEntry[] {
    return [...this.#entries.values()]
  }

  /** The entry that holds the moment back; null without any. */
  get oldest (): IngestEntry | null {
    return this.all.reduce<IngestEntry | null>((oldest, entry) =>
      oldest === null || entry.presence.publishedThrough < oldest.presence.publishedThrough ? entry : oldest, null)
  }

  /**
   * The highest moment that processes before or beside this one announced; 0: none did. What they said of the watermark
   * was never beyond it, and at most a little below.
   */
  get announcedByOthers (): number {
    return this.#announcedByOthers
  }

  /** The clock of NATS, about: epoch milliseconds. Ages by it are never too small by more than a message takes. */
  now (): number {
    return this.#clock.now(performance.now())
  }

  /**
   * Asks every process where it is. Resolves when those that answered lately have answered, or a moment later.
   *
   * An answer stays true: what its process had published then is published. One that is late or lost costs time only.
   *
   * @throws when the connection is closed.
   */
  async ask (): Promise<void> {
    if (this.#entries.size === 0) return
    const since = performance.now() - WAITED_FOR_MS
    this.#asked = new Set(this.all.filter(({ answeredAt }) => answeredAt > since).map(({ key }) => key))
    this.#connection.publish(ASK_SUBJECT, undefined, { reply: this.#inbox })
    if (this.#asked.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onAnswered = resolve
    const late = setTimeout(resolve, ANSWER_WITHIN_MS)
    await promise
    clearTimeout(late)
  }

  /**
   * Finds the moment before which everything that any ingest process received is in the stream.
   *
   * It never passes the announcement, which precedes the reading of the entries: a process whose entry was missed then
   * reads the announcement before it receives anything. The announcement runs a little ahead, so that not every proof
   * has to write.
   *
   * @returns null when nothing is known: no entry, or one of a process that knows nothing yet.
   * @throws when NATS does not answer.
   */
  async publishedThrough (): Promise<number | null> {
    const through = this.#isCurrent ? this.#least() : 0
    if (through === 0) return null
    // Compare-and-set: two processes that both believe to lead never take an announcement back.
    if (through > this.#announced.through) await this.#announce(through + ANNOUNCE_AHEAD_MS)
    return this.#least() >= through && through <= this.#announced.through ? through : null
  }

  close (): void {
    this.#isClosed = true
    this.#watch?.stop()
  }

  /** When all processes have removed their entries, nothing is on its way, and what comes is received after now. */
  #least (): number {
    const { oldest } = this
    if (oldest !== null) return oldest.presence.publishedThrough
    return this.#hasRemovals ? Math.floor(this.#clock.atLeast(performance.now())) : 0
  }

  /** Takes an answer of the process that has the entry; one of a process before it says nothing of this one. */
  #hear (answer: Msg): void {
    // Without content: NATS says that nobody listens.
    if (answer.data.length === 0) return
    const { folderId, processId, publishedThrough, ...waits } = answer.json<IngestPosition>()
    const entry = this.#entries.get(presenceKey(folderId))
    if (entry === undefined || entry.presence.processId !== processId) return
    const through = Math.max(publishedThrough, entry.presence.publishedThrough)
    entry.presence = { ...entry.presence, ...waits, publishedThrough: through }
    entry.heardAt = this.now()
    entry.answeredAt = performance.now()
    this.#asked.delete(entry.key)
    if (this.#asked.size === 0) this.#onAnswered?.()
  }

  async #announce (through: number): Promise<void> {
    try {
      const previousSeq = this.#announced.revision
      this.#announcedHere = through
      await this.#seen(await this.#bucket.put(ANNOUNCED_KEY, String(through), { previousSeq }))
    } catch (error) {
      // Another process announced, or the bucket is another one: look again.
      if (error instanceof JetStreamApiError && error.code === WRONG_LAST_SEQUENCE) this.#watch?.stop()
      else throw error
    }
  }

  /** Resolves when everything up to a revision arrived, and nothing newer was on its way. */
  async #seen (revision: number): Promise<void> {
    if (this.#revision >= revision) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ revision, resolve })
    const late = setTimeout(resolve, SEEN_WITHIN_MS)
    await promise
    clearTimeout(late)
    if (this.#revision < revision) throw new Error('an announcement of the watermark did not come back from NATS')
  }

  async #watchAll (): Promise<void> {
    for (let failures = 0; !this.#isClosed;) {
      this.#isCurrent = false
      this.#revision = 0
      this.#announced = { through: 0, revision: 0 }
      try {
        this.#watch = await this.#bucket.watch()
        failures = 0
        for await (const entry of this.#watch) this.#see(entry)
      } catch (err) {
        if (!this.#isClosed && failures++ === 0) this.#logger.warn({ err }, 'could not read the entries of the ingest processes; the watermark does not advance')
      }
      if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, WATCH_AGAIN_MS).unref())
    }
  }

  #see (entry: KvWatchEntry): void {
    const storedAt = entry.created.getTime()
    if (entry.key === ANNOUNCED_KEY) {
      const through = entry.operation === 'PUT' ? Number(entry.string()) : 0
      this.#announced = { through: Math.max(this.#announced.through, through), revision: entry.revision }
      if (through !== this.#announcedHere) this.#announcedByOthers = Math.max(this.#announcedByOthers, through)
    } else if (entry.operation === 'PUT') {
      this.#keep(entry.key, entry.json<IngestPresence>(), storedAt)
    } else {
      this.#entries.delete(entry.key)
      this.#hasRemovals = true
    }
    this.#clock.hear(storedAt, performance.now())
    // Something newer may have replaced what should have come before: only without it, everything was seen.
    if (entry.delta !== 0) return
    this.#revision = entry.revision
    this.#isCurrent = true
    this.#waiting = this.#waiting.filter(({ revision, resolve }) => {
      if (revision <= this.#revision) resolve()
      return revision > this.#revision
    })
  }

  /** An entry of the same process may be older than its last answer, of another one it is all that is known. */
  #keep (key: string, presence: IngestPresence, storedAt: number): void {
    const before = this.#entries.get(key)
    const isSame = before?.presence.processId === presence.processId
    const publishedThrough = Math.max(presence.publishedThrough, isSame ? before.presence.publishedThrough : 0)
    const answeredAt = isSame ? before.answeredAt : -Infinity
    this.#entries.set(key, { key, presence: { ...presence, publishedThrough }, heardAt: storedAt, answeredAt })
  }
}

/** A clock that went back is believed after one to two of these, in milliseconds. */
const SPAN_MS = 30_000

/**
 * Estimates the clock of a server from its messages: each says when it was stored. One that comes late, as those that
 * wait for a new leader, makes the estimate slow, so the quickest message of the last 30 to 60 seconds counts. All
 * times are milliseconds; `at` is of the own monotonic clock.
 */
export class ServerClockEstimate {
  /** How far the clock is ahead of the own one by the quickest message of the span before, and of this one. */
  #before = -Infinity
  #ahead = -Infinity
  #spanFrom = 0
  #lastAhead = 0

  hear (storedAt: number, at: number): void {
    this.#lastAhead = storedAt - at
    if (at - this.#spanFrom >= SPAN_MS) {
      this.#before = this.#ahead
      this.#ahead = -Infinity
      this.#spanFrom = at
    }
    this.#ahead = Math.max(this.#ahead, this.#lastAhead)
  }

  /** About now. */
  now (at: number): number {
    return at + Math.max(this.#before, this.#ahead, this.#lastAhead)
  }

  /** A moment that has certainly passed, also when the clock went back. */
  atLeast (at: number): number {
    return at + this.#lastAhead
  }
}
