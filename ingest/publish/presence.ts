/** Tells NATS, a few times a second, up to which moment of receipt this process has published everything. */
import { hostname } from 'node:os'
import type { KV } from '@nats-io/kv'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import type { Logger } from '../../platform/logger.ts'
import { readVersion } from '../../schema/version.ts'
import { ANNOUNCED_KEY, INGEST_BUCKET, type IngestPresence, presenceKey } from '../../schema/ingest-presence.ts'
import type { Spool } from '../spool/spool.ts'
import { readRegistration, spoolFolderId, writeRegistration } from '../spool/spool-registration.ts'
import type { PublishedThrough } from './published-through.ts'
import type { StreamLink } from './stream-link.ts'

/** Length of the spans in which what is in flight is counted, in milliseconds. */
const SPAN_MS = 100

/** Spans between two entries: five entries a second cost 0.2 % of a core. */
const SPANS_PER_ENTRY = 2

/** Interval between two comparisons with the clock of NATS, in milliseconds. */
const COMPARE_CLOCKS_MS = 10_000

export interface PresenceOptions {
  processId: string
  link: StreamLink
  spool: Spool
  publishedThrough: PublishedThrough
  replicas: number
  /** Whether this machine has messages in spools that nobody takes care of and that have no entry of their own. */
  hasStraySpools: () => boolean
  logger: Logger
  /** Epoch milliseconds. */
  now: () => number
}

/**
 * The entry of this process and its spool folder, from before its first 200 until it has stopped with nothing left.
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
  #natsAheadMs = Number.NaN
  #comparedAt = -Infinity
  #spooledSince: number | null = null
  #writing: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #spans = 0
  #failed = false

  constructor (options: PresenceOptions) {
    this.#options = options
    this.#since = options.now()
  }

  /** Whether the watermark waits for the events of this process. */
  get isRegistered (): boolean {
    return this.#isRegistered
  }

  /** Writes the first entry, or leaves that to the next try. */
  async start (): Promise<void> {
    const { folder } = this.#options.spool
    this.#folderId = await spoolFolderId(folder)
    this.#isRegistered = await readRegistration(folder) === 'registered'
    await this.#write()
    this.#timer = setInterval(() => this.#beat(), SPAN_MS)
    this.#timer.unref()
  }

  /** Removes the entry if nothing is left that it speaks for. To be called while the folder is still locked. */
  async stop (): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.#writing
    const { spool, link, publishedThrough, logger } = this.#options
    if (!this.#isRegistered || !spool.isSettled || publishedThrough.inFlight > 0 || !link.isUp()) return
    try {
      await removeEntry(await this.#openBucket(), spool.folder, this.#folderId)
    } catch (err) {
      logger.warn({ err }, 'the entry of this process could not be removed from NATS; the watermark waits until its spool folder is used again')
    }
  }

  /** Removes the entry of a dead process whose spool is empty. To be called while its folder is locked. */
  async retire (folder: string): Promise<void> {
    if (await readRegistration(folder) === 'unregistered') return
    await removeEntry(await this.#openBucket(), folder, await spoolFolderId(folder))
  }

  #beat (): void {
    this.#options.publishedThrough.advance()
    if (++this.#spans % SPANS_PER_ENTRY === 0) void this.#write()
  }

  /** One at a time: an entry must not overtake the one before. Never rejects. */
  async #write (): Promise<void> {
    if (this.#writing !== null || !this.#options.link.isUp()) return
    this.#writing = this.#register().then(() => { this.#failed = false }, (err: unknown) => {
      // Whether the entry was stored is not known.
      this.#revision = null
      this.#bucket = null
      if (!this.#failed) this.#options.logger.warn({ err, registered: this.#isRegistered }, 'this process cannot write its entry to NATS; the watermark stands still')
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
      return await this.#compareClocks(bucket)
    }
    await this.#put(bucket, this.#revision, this.#announce())
    if (performance.now() - this.#comparedAt > COMPARE_CLOCKS_MS) await this.#compareClocks(bucket)
  }

  #announce (): number {
    const { publishedThrough, hasStraySpools } = this.#options
    if (hasStraySpools() || Number.isNaN(this.#natsAheadMs)) return publishedThrough.announced
    return publishedThrough.announce(performance.now() + this.#natsAheadMs)
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
  }

  /** How far the clock of NATS is ahead of the monotonic one here: at least so far, for the answer took its time. */
  async #compareClocks (bucket: KV): Promise<void> {
    const storedBefore = performance.now()
    const entry = await bucket.get(presenceKey(this.#folderId))
    if (entry === null || entry.revision !== this.#revision) return
    this.#natsAheadMs = entry.created.getTime() - storedBefore
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
