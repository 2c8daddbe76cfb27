/** Who this process is, its clock, and up to which moment of receipt it has published everything. */
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { KV } from '@nats-io/kv'
import type { Msg, Subscription } from '@nats-io/transport-node'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import type { Logger } from '../../platform/logger.ts'
import { readVersion } from '../../schema/version.ts'
import {
  ANNOUNCE_AHEAD_MS, ANNOUNCED_KEY, ASK_SUBJECT, INGEST_BUCKET, type IngestPosition, type IngestPresence,
  PRESENCE_RENEWED_MS, presenceKey
} from '../../schema/wire/ingest-presence.ts'
import type { StreamLink } from '../publish/stream-link.ts'
import type { Spool } from '../spool/spool.ts'
import { PublishedThrough } from './published-through.ts'
import { ReceiptClock } from './receipt-clock.ts'
import { readRegistration, spoolFolderId, writeRegistration } from './spool-registration.ts'

/** Interval between two rounds, in milliseconds; while something waits in the spool, its entry is as old at most. */
const ROUND_MS = 500

/** How long a start that reached NATS goes on trying to write its first entry, and how often, in milliseconds. */
const [FIRST_ENTRY_WAIT_MS, FIRST_ENTRY_RETRY_MS] = [10_000, 100]

/** Comparisons with the clock of NATS of which the best one counts: each is wrong by the time that its answer took. */
const COMPARISONS = 3

export interface RegistryOptions {
  processId: string
  link: StreamLink
  spool: Spool
  replicas: number
  logger: Logger
}

/**
 * The entry of this process and its spool folder in NATS, from before its first 200 until it has stopped with nothing
 * left; and its answers when the pipeline asks where it is.
 *
 * The entry costs a flush of NATS, so it is written only while something waits, and every few seconds.
 *
 * A process that never reached NATS may not acknowledge events: the watermark could pass them. One whose folder still
 * has the entry of the process before it, which was killed, may: that entry holds the watermark back.
 */
export class Registry {
  readonly publishedThrough: PublishedThrough
  readonly #options: RegistryOptions
  readonly #clock = new ReceiptClock()
  readonly #since = Date.now()
  #folderId = ''
  #bucket: KV | null = null
  /** Of the entry in NATS; null: to be read first. */
  #revision: number | null = null
  #isRegistered = false
  /** How far the clock of NATS was found to be ahead of the monotonic one here, at least; the last comparisons. */
  #natsAheadMs: number[] = []
  #asks: Subscription | null = null
  #wroteAt = -Infinity
  #spooledSince: number | null = null
  #loop: IntervalLoop | null = null
  #failed = false

  constructor (options: RegistryOptions) {
    this.#options = options
    this.publishedThrough = new PublishedThrough(() => this.#clock.now(), () => options.spool.isSettled)
  }

  /** Whether the watermark waits for the events of this process. */
  get isRegistered (): boolean {
    return this.#isRegistered
  }

  /**
   * Writes the first entry: now, if NATS was reached, for then only the entry is waited for; else as soon as it is. A
   * process that listens before it has one refuses events, also those of a process whose port it shares.
   */
  async start (): Promise<void> {
    const { link, spool: { folder } } = this.#options
    this.#folderId = await spoolFolderId(folder)
    this.#isRegistered = await readRegistration(folder) === 'registered'
    const startedAt = performance.now()
    await this.#round()
    while (!this.#isRegistered && link.isUp() && performance.now() - startedAt < FIRST_ENTRY_WAIT_MS) {
      await delay(FIRST_ENTRY_RETRY_MS)
      await this.#round()
    }
    // The pipeline announces a moment ahead: rather than to give events that time of receipt, it is waited for. A clock
    // that is further behind is given what was announced.
    const earlyMs = this.publishedThrough.receivedAt() - this.#clock.now()
    if (earlyMs > 0 && earlyMs <= ANNOUNCE_AHEAD_MS) await delay(earlyMs)
    const loop = this.#loop = runAtIntervals({
      everyMs: ROUND_MS, stopWithinMs: Infinity, run: async () => await this.#round()
    })
    // Safe to ignore: who opened the link says why it failed.
    link.opened.then(() => loop.soon(0), () => {})
  }

  /** Removes the entry if nothing is left that it speaks for. To be called while the folder is still locked. */
  async stop (): Promise<void> {
    this.#asks?.unsubscribe()
    await this.#loop?.stop()
    const { spool, link, logger } = this.#options
    if (!this.#isRegistered || !spool.isSettled || this.publishedThrough.inFlight > 0 || !link.isUp()) return
    await this.retire(spool.folder).catch((err: unknown) => {
      logger.warn({ err }, 'could not remove this process\'s entry from NATS; the watermark does not advance until a process uses this spool folder again')
    })
  }

  /** Removes the entry of an empty spool folder, as of a dead process. To be called while the folder is locked. */
  async retire (folder: string): Promise<void> {
    if (await readRegistration(folder) === 'unregistered') return
    const [bucket, key] = [await this.#openBucket(), presenceKey(await spoolFolderId(folder))]
    await writeRegistration(folder, 'retiring')
    const entry = await bucket.get(key)
    if (entry?.operation === 'PUT') await bucket.delete(key, { previousSeq: entry.revision })
    await writeRegistration(folder, 'unregistered')
  }

  /** Writes the entry if it is due. Never rejects. */
  async #round (): Promise<void> {
    const { link, spool, logger } = this.#options
    // Which of both clocks is right is seen in what NATS stores now.
    const isNews = this.#revision === null || this.#clock.hasDiverged || !spool.isSettled || this.#spooledSince !== null
    if (!link.isUp() || (!isNews && performance.now() - this.#wroteAt < PRESENCE_RENEWED_MS)) return
    try {
      const bucket = await this.#openBucket()
      if (this.#revision === null) await this.#register(bucket)
      else await this.#put(bucket, this.#revision, this.#announce())
      await this.#compareClocks(bucket)
      this.#failed = false
    } catch (err) {
      // Whether the entry was stored is not known.
      this.#revision = null
      this.#bucket = null
      if (!this.#failed) logger.warn({ err, registered: this.#isRegistered }, 'this process cannot write its entry to NATS; the watermark does not advance')
      this.#failed = true
    }
  }

  async #register (bucket: KV): Promise<void> {
    const { spool, link } = this.#options
    const entry = await bucket.get(presenceKey(this.#folderId))
    // Of a process before, which may have left something in the spool; or of this one.
    if (entry?.operation === 'PUT') this.publishedThrough.continueFrom(entry.json<IngestPresence>().publishedThrough)
    await this.#put(bucket, entry?.revision ?? 0, this.publishedThrough.announced)
    // Only now: the pipeline announces first and then looks who is there, so one of both sees the other.
    const announced = await bucket.get(ANNOUNCED_KEY)
    if (announced?.operation === 'PUT') this.publishedThrough.raiseFloor(Number(announced.string()))
    if (!this.#isRegistered) await writeRegistration(spool.folder, 'registered')
    this.#isRegistered = true
    const callback = (error: Error | null, ask: Msg): void => this.#answer(error, ask)
    this.#asks ??= link.connection()?.subscribe(ASK_SUBJECT, { callback }) ?? null
    // What was written says no position yet.
    this.#wroteAt = -Infinity
  }

  /** Never throws: a bad status request must not crash the process. */
  #answer (error: Error | null, ask: Msg): void {
    if (error !== null || !this.#isRegistered || this.#revision === null) return
    const position: IngestPosition = { folderId: this.#folderId, ...this.#position(this.#announce()) }
    try {
      ask.respond(JSON.stringify(position))
    } catch {
      // The connection closes: anyone who asked asks again.
    }
  }

  #announce (): number {
    if (this.#natsAheadMs.length === 0) return this.publishedThrough.announced
    return this.publishedThrough.announce(performance.now() + Math.max(...this.#natsAheadMs))
  }

  #position (through: number): Omit<IngestPosition, 'folderId'> {
    const { processId, spool } = this.#options
    return {
      processId, publishedThrough: through, inFlight: this.publishedThrough.inFlight,
      spoolBytes: spool.isSettled ? 0 : Math.max(spool.bytes, 1)
    }
  }

  async #put (bucket: KV, previousSeq: number, through: number): Promise<void> {
    const position = this.#position(through)
    const spooledSince = position.spoolBytes === 0 ? null : this.#spooledSince ?? through
    const entry: IngestPresence = {
      ...position, host: hostname(), pid: process.pid, version: VERSION, folder: this.#options.spool.folder,
      since: this.#since, at: Date.now(), spooledSince
    }
    this.#spooledSince = spooledSince
    this.#revision = await bucket.put(presenceKey(this.#folderId), JSON.stringify(entry), { previousSeq })
    this.#wroteAt = performance.now()
  }

  /** How far the clock of NATS is ahead of the monotonic one here: at least so far, for the answer took its time. */
  async #compareClocks (bucket: KV): Promise<void> {
    const storedBefore = performance.now()
    const entry = await bucket.get(presenceKey(this.#folderId))
    if (entry === null || entry.revision !== this.#revision) return
    const aheadMs = entry.created.getTime() - storedBefore
    this.#natsAheadMs = [aheadMs, ...this.#natsAheadMs].slice(0, COMPARISONS)
    this.#clock.compare(aheadMs)
  }

  async #openBucket (): Promise<KV> {
    const connection = this.#options.link.connection()
    if (connection === null) throw new Error('NATS is not connected')
    // Never direct reads, which may come from a replica that lags: these decide what is acknowledged.
    return (this.#bucket ??= await openBucket(connection, INGEST_BUCKET, { replicas: this.#options.replicas }))
  }
}

const VERSION = readVersion()
