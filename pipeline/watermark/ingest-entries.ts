/** What the ingest processes say about themselves, as one pipeline process sees it. */
import { JetStreamApiError } from '@nats-io/jetstream'
import type { KV, KvWatchEntry } from '@nats-io/kv'
import type { QueuedIterator } from '@nats-io/transport-node'
import type { Logger } from '../../platform/logger.ts'
import { ANNOUNCED_KEY, type IngestPresence } from '../../schema/ingest-presence.ts'

/** The entry of a spool folder. */
export interface IngestEntry {
  key: string
  presence: IngestPresence
  /** When NATS stored it, epoch milliseconds of its clock. */
  storedAt: number
}

/** How long an own announcement may take to come back, in milliseconds. */
const SEEN_WITHIN_MS = 2000

const WATCH_AGAIN_MS = 1000

/** JetStream API error "wrong last sequence": another process has written the key since it was read. */
const WRONG_LAST_SEQUENCE = 10071

/**
 * Watches the bucket of ingest. What was written to it arrives in the order of writing; that is what proofs rest on.
 *
 * An entry leaves only when it was removed on purpose. One that vanished with the bucket still counts, for as long as
 * this process lives: an empty bucket must not look like no ingest.
 */
export class IngestEntries {
  readonly #bucket: KV
  readonly #logger: Logger
  readonly #entries = new Map<string, IngestEntry>()
  #announced = { through: 0, revision: 0 }
  /** Everything up to this revision was seen. */
  #revision = 0
  #aheadMs = 0
  #waiting: { revision: number, resolve: () => void }[] = []
  #watch: QueuedIterator<KvWatchEntry> | null = null
  #isClosed = false
  #isCurrent = false

  constructor (bucket: KV, logger: Logger) {
    this.#bucket = bucket
    this.#logger = logger
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

  /** The clock of NATS, about: epoch milliseconds. */
  now (): number {
    return performance.now() + this.#aheadMs
  }

  /**
   * Finds the moment before which everything that any ingest process received is in the stream.
   *
   * It is announced first, and taken back if a process has come meanwhile that might still receive something earlier.
   * A process that comes later reads the announcement before it receives anything.
   *
   * @returns null when nothing is known: no entry, or one of a process that knows nothing yet.
   * @throws when NATS does not answer.
   */
  async publishedThrough (): Promise<number | null> {
    const through = this.#isCurrent ? this.oldest?.presence.publishedThrough ?? 0 : 0
    if (through === 0) return null
    if (through > this.#announced.through) {
      // Compare-and-set: two processes that both believe to lead never take an announcement back.
      await this.#announce(through)
    }
    const now = this.oldest?.presence.publishedThrough ?? 0
    return now >= through && through <= this.#announced.through ? through : null
  }

  close (): void {
    this.#isClosed = true
    this.#watch?.stop()
  }

  async #announce (through: number): Promise<void> {
    try {
      const previousSeq = this.#announced.revision
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
        if (!this.#isClosed && failures++ === 0) this.#logger.warn({ err }, 'the entries of ingest cannot be read; the watermark stands still')
      }
      if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, WATCH_AGAIN_MS).unref())
    }
  }

  #see (entry: KvWatchEntry): void {
    const storedAt = entry.created.getTime()
    if (entry.key === ANNOUNCED_KEY) {
      const through = entry.operation === 'PUT' ? Number(entry.string()) : 0
      this.#announced = { through: Math.max(this.#announced.through, through), revision: entry.revision }
    } else if (entry.operation === 'PUT') {
      this.#entries.set(entry.key, { key: entry.key, presence: entry.json<IngestPresence>(), storedAt })
    } else {
      this.#entries.delete(entry.key)
    }
    this.#aheadMs = storedAt - performance.now()
    // Something newer may have replaced what should have come before: only without it, everything was seen.
    if (entry.delta !== 0) return
    this.#revision = entry.revision
    this.#isCurrent = true
    this.#waiting = this.#waiting.filter(({ revision, resolve }) => {
      if (revision <= this.#revision) resolve()
      return revision > this.#revision
    })
  }
}
