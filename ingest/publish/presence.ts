/** Tells the pipeline up to which moment of receipt this process has published everything. */
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { KV } from '@nats-io/kv'
import type { Msg, Subscription } from '@nats-io/transport-node'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import type { Logger } from '../../platform/logger.ts'
import { readVersion } from '../../schema/version.ts'
import {
  ANNOUNCE_AHEAD_MS, ANNOUNCED_KEY, ASK_SUBJECT, INGEST_BUCKET, type IngestPosition, type IngestPresence,
  PRESENCE_RENEWED_MS, presenceKey
} from '../../schema/wire/ingest-presence.ts'
import type { Spool } from '../spool/spool.ts'
import { readRegistration, spoolFolderId, writeRegistration } from '../spool/spool-registration.ts'
import type { ReceiptClock } from './receipt-clock.ts'
import type { PublishedThrough } from './published-through.ts'
import type { StreamLink } from './stream-link.ts'

/** Interval between checks of the entry, in milliseconds. */
const POLL_INTERVAL_MS = 500

/** How long a start that reached NATS goes on trying to write its first entry, and how often, in milliseconds. */
const [FIRST_ENTRY_WAIT_MS, FIRST_ENTRY_RETRY_MS] = [10_000, 100]

/** While something waits in the spool, its entry says how much, so often: in milliseconds. */
const SPOOLING_MS = 1000

/** Interval between two comparisons with the clock of NATS, in milliseconds. */
const COMPARE_CLOCKS_MS = 10_000

/** Comparisons of which the best one counts: each is wrong by the time that its answer took. */
const COMPARISONS = 3

export interface PresenceOptions {
  processId: string
  link: StreamLink
  spool: Spool
  publishedThrough: PublishedThrough
  /** Is compared with the clock of NATS. */
  clock: ReceiptClock
  replicas: number
  /** Whether this machine has messages in spools that nobody takes care of and that have no entry of their own. */
  hasStraySpools: () => boolean
  logger: Logger
  /** Epoch milliseconds. */
  now: () => number
}

/**
 * The entry of this process and its spool folder, from before its first 200 until it has stopped with nothing left; and
 * its answers when the pipeline asks where it is.
 *
 * The entry costs a flush of NATS, so it is written only when something else waits than before, and every few seconds.
 *
 * A process that never reached NATS may not acknowledge events: the watermark could pass them. One whose folder still
 * has the entry of the process before it, which was killed, may: that entry holds the watermark back.
 */
export class Presence {
  readonly #options: PresenceOptions
  readonly #since: number
  #folderId = ''
  #bucket: KV | null = null
  /** Of the entry in NATS; null: to be read first. */
  #revision: number | null = null
  #isRegistered = false
  /** How far the clock of NATS was found to be ahead of the monotonic one here, at least; the last comparisons. */
  #natsAheadMs: number[] = []
  #comparedAt = -Infinity
  #asks: Subscription | null = null
  #wroteAt = -Infinity
  #saidSettled = true
  #spooledSince: number | null = null
  #writing: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #failed = false

  constructor (options: PresenceOptions) {
    this.#options = options
    this.#since = options.now()
  }

  /** Whether the watermark waits for the events of this process. */
  get isRegistered (): boolean {
    return this.#isRegistered
  }

  /** Writes the first entry: now, if NATS was reached, for then only the entry is waited for; else as soon as it is. */
  async start (): Promise<void> {
    const { folder } = this.#options.spool
    this.#folderId = await spoolFolderId(folder)
    this.#isRegistered = await readRegistration(folder) === 'registered'
    await this.#writeFirst()
    // The pipeline announces a moment ahead: rather than to give events that time of receipt, it is waited for. A clock
    // that is further behind is given what was announced.
    const earlyMs = this.#options.publishedThrough.receivedAt() - this.#options.clock.now()
    if (earlyMs > 0 && earlyMs <= ANNOUNCE_AHEAD_MS) await delay(earlyMs)
    this.#timer = setInterval(() => this.#poll(), POLL_INTERVAL_MS)
    this.#timer.unref()
    // Safe to ignore: who opened the link says why it failed.
    this.#options.link.opened.then(() => this.#poll(), () => {})
  }

  /** Removes the entry if nothing is left that it speaks for. To be called while the folder is still locked. */
  async stop (): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#asks?.unsubscribe()
    await this.#writing
    const { spool, link, publishedThrough, logger } = this.#options
    if (!this.#isRegistered || !spool.isSettled || publishedThrough.inFlight > 0 || !link.isUp()) return
    try {
      await removeEntry(await this.#openBucket(), spool.folder, this.#folderId)
    } catch (err) {
      logger.warn({ err }, 'could not remove this process\'s entry from NATS; the watermark is held back until its spool folder is in use again')
    }
  }

  /** Removes the entry of a dead process whose spool is empty. To be called while its folder is locked. */
  async retire (folder: string): Promise<void> {
    if (await readRegistration(folder) === 'unregistered') return
    await removeEntry(await this.#openBucket(), folder, await spoolFolderId(folder))
  }

  /** A process that listens before it has an entry refuses events, also those of a process whose port it shares. */
  async #writeFirst (): Promise<void> {
    const startedAt = performance.now()
    await this.#write()
    while (!this.#isRegistered && this.#options.link.isUp() && performance.now() - startedAt < FIRST_ENTRY_WAIT_MS) {
      await delay(FIRST_ENTRY_RETRY_MS)
      await this.#write()
    }
  }

  #poll (): void {
    const { spool: { isSettled }, clock } = this.#options
    // Which of both clocks is right is seen in what NATS stores now.
    if (clock.hasDiverged) this.#comparedAt = -Infinity
    const isWrong = clock.hasDiverged || this.#revision === null || isSettled !== this.#saidSettled
    const dueMs = isWrong ? 0 : isSettled ? PRESENCE_RENEWED_MS : SPOOLING_MS
    if (performance.now() - this.#wroteAt >= dueMs) void this.#write()
  }

  /** Never throws: a bad status request must not crash the process. */
  #answer (error: Error | null, ask: Msg): void {
    if (error !== null || !this.#isRegistered || this.#revision === null) return
    const { processId, spool, publishedThrough } = this.#options
    const position: IngestPosition = {
      folderId: this.#folderId, processId, publishedThrough: this.#announce(), inFlight: publishedThrough.inFlight,
      spoolBytes: spool.isSettled ? 0 : Math.max(spool.bytes, 1)
    }
    try {
      ask.respond(JSON.stringify(position))
    } catch {
      // The connection closes: anyone who asked asks again.
    }
  }

  /** One at a time: an entry must not overtake the one before. Never rejects. */
  async #write (): Promise<void> {
    if (this.#writing !== null || !this.#options.link.isUp()) return
    this.#writing = this.#register().then(() => { this.#failed = false }, (err: unknown) => {
      // Whether the entry was stored is not known.
      this.#revision = null
      this.#bucket = null
      if (!this.#failed) this.#options.logger.warn({ err, registered: this.#isRegistered }, 'this process cannot write its entry to NATS; the watermark does not advance')
      this.#failed = true
    }).finally(() => { this.#writing = null })
    await this.#writing
  }

  async #register (): Promise<void> {
    const { spool, publishedThrough } = this.#options
    const bucket = await this.#openBucket()
    const key = presenceKey(this.#folderId)
    if (this.#revision === null) {
      const entry = await bucket.get(key)
      // Of a process before, which may have left something in the spool; or of this one.
      if (entry?.operation === 'PUT') publishedThrough.continueFrom(entry.json<IngestPresence>().publishedThrough)
      await this.#put(bucket, entry?.revision ?? 0, publishedThrough.announced)
      // Only now: the pipeline announces first and then looks who is there, so one of both sees the other.
      const announced = await bucket.get(ANNOUNCED_KEY)
      if (announced?.operation === 'PUT') publishedThrough.raiseFloor(Number(announced.string()))
      if (!this.#isRegistered) await writeRegistration(spool.folder, 'registered')
      this.#isRegistered = true
      const callback = (error: Error | null, ask: Msg): void => this.#answer(error, ask)
      this.#asks ??= this.#options.link.connection()?.subscribe(ASK_SUBJECT, { callback }) ?? null
      // What was written says no position yet.
      this.#wroteAt = -Infinity
      return await this.#compareClocks(bucket)
    }
    await this.#put(bucket, this.#revision, this.#announce())
    if (performance.now() - this.#comparedAt > COMPARE_CLOCKS_MS) await this.#compareClocks(bucket)
  }

  #announce (): number {
    const { publishedThrough, hasStraySpools } = this.#options
    if (hasStraySpools() || this.#natsAheadMs.length === 0) return publishedThrough.announced
    return publishedThrough.announce(performance.now() + Math.max(...this.#natsAheadMs))
  }

  async #put (bucket: KV, previousSeq: number, through: number): Promise<void> {
    const { processId, spool, publishedThrough, now } = this.#options
    this.#spooledSince = spool.isSettled ? null : this.#spooledSince ?? through
    const entry: IngestPresence = {
      processId,
      host: hostname(),
      pid: process.pid,
      version: VERSION,
      folder: spool.folder,
      since: this.#since,
      at: now(),
      publishedThrough: through,
      inFlight: publishedThrough.inFlight,
      spoolBytes: spool.isSettled ? 0 : Math.max(spool.bytes, 1),
      spooledSince: this.#spooledSince
    }
    this.#revision = await bucket.put(presenceKey(this.#folderId), JSON.stringify(entry), { previousSeq })
    this.#saidSettled = entry.spoolBytes === 0
    this.#wroteAt = performance.now()
  }

  /** How far the clock of NATS is ahead of the monotonic one here: at least so far, for the answer took its time. */
  async #compareClocks (bucket: KV): Promise<void> {
    const storedBefore = performance.now()
    const entry = await bucket.get(presenceKey(this.#folderId))
    if (entry === null || entry.revision !== this.#revision) return
    const aheadMs = entry.created.getTime() - storedBefore
    this.#natsAheadMs = [aheadMs, ...this.#natsAheadMs].slice(0, COMPARISONS)
    this.#options.clock.compare(aheadMs)
    this.#comparedAt = performance.now()
  }

  async #openBucket (): Promise<KV> {
    const connection = this.#options.link.connection()
    if (connection === null) throw new Error('NATS is not connected')
    // Direct reads may come from a replica that lags; these decide what is acknowledged.
    this.#bucket ??= await openBucket(connection, INGEST_BUCKET, {
      history: 1, replicas: this.#options.replicas, allow_direct: false
    })
    return this.#bucket
  }
}

const VERSION = readVersion()

async function removeEntry (bucket: KV, folder: string, id: string): Promise<void> {
  await writeRegistration(folder, 'retiring')
  const entry = await bucket.get(presenceKey(id))
  if (entry?.operation === 'PUT') await bucket.delete(presenceKey(id), { previousSeq: entry.revision })
  await writeRegistration(folder, 'unregistered')
}
