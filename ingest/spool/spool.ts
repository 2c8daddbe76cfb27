import { readdir, readFile, rename, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { type FileLock, flushFolder } from '../../platform/durable-folder.ts'
import type { Logger } from '../../platform/logger.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { OutgoingMessage, Publish } from '../publish/acknowledged-publisher.ts'
import { publishPortion } from './drain-spool.ts'
import { listSegments, segmentPath, SegmentWriter } from './segment-writer.ts'
import { SegmentReader } from './segment-reader.ts'
import { decodeSpoolRecord, encodeSpoolRecord } from './spool-record.ts'

export interface SpoolOptions {
  folder: string
  lock: FileLock
  /** Maximum bytes of the folder, refused records included; an append beyond is refused. */
  maxBytes: number
  logger: Logger
}

/**
 * Messages appended but not yet published, in a folder that belongs to this process. While the stream is unavailable or
 * full, ingest answers 200 from here, and 503 only when this is full too: a stock posthog-node discards a batch after
 * nine seconds of 503, and restarting a stream takes longer.
 */
export class Spool {
  readonly #options: SpoolOptions
  readonly #reader: SegmentReader
  readonly #writer: SegmentWriter
  /** Ids of messages that were published before one in front of them. */
  readonly #ahead = new Set<string>()
  #bytes: number
  #appending = 0
  #appends = 0
  #refused: number
  #refusedBytes: number

  private constructor (options: SpoolOptions, reader: SegmentReader, left: Left & { bytes: number }) {
    this.#options = options
    this.#bytes = left.bytes
    this.#refused = left.refused
    this.#refusedBytes = left.refusedBytes
    this.#reader = reader
    this.#writer = new SegmentWriter(options.folder, left.lastSegment + 1, (synced) => { this.#bytes += synced })
  }

  /** Opens the spool of a folder, with what an earlier process left in it. */
  static async open (options: SpoolOptions): Promise<Spool> {
    const reader = new SegmentReader(options.folder, options.logger)
    const left = await takeBackRefused(options, await reader.open())
    let bytes = 0
    for (const number of await listSegments(options.folder)) bytes += await sizeOf(segmentPath(options.folder, number))
    return new Spool(options, reader, { ...left, bytes })
  }

  get folder (): string {
    return this.#options.folder
  }

  /** Bytes that wait to be published, about. */
  get bytes (): number {
    return this.#bytes
  }

  /** Bytes in files of messages that the stream refused. They take room from the others until somebody sees to them. */
  get refusedBytes (): number {
    return this.#refusedBytes
  }

  get isEmpty (): boolean {
    return this.#bytes === 0 && this.#appending === 0
  }

  /** Nothing was left behind: it is empty, and the stream could take every message. */
  get isSettled (): boolean {
    return this.isEmpty && this.#refused === 0
  }

  /**
   * Keeps a message; resolves when it is on the disk.
   *
   * @throws {MillraceError} `MILLRACE_SPOOL_FULL`; or what the disk says.
   */
  async append (message: OutgoingMessage): Promise<void> {
    const bytes = message.payload.length
    if (this.#bytes + this.#refusedBytes + this.#appending + bytes > this.#options.maxBytes) {
      throw new MillraceError('MILLRACE_SPOOL_FULL', 'the spool is full', { action: 'retry' })
    }
    this.#appending += bytes
    this.#appends++
    try {
      await this.#writer.append(message)
    } finally {
      this.#appending -= bytes
    }
  }

  /**
   * Publishes the oldest messages, in order where order matters, and removes them.
   *
   * @param publish  Rejects when the stream is unavailable; then what came before is removed, and the rest comes again.
   * @returns how many messages were published; 0 when none is left.
   * @throws what `publish` rejected with.
   */
  async drainSome (publish: Publish): Promise<number> {
    const portion = await this.#reader.read(this.#writer.position)
    if (portion === null) {
      await this.#drop()
      return 0
    }
    const { published, failure } = await publishPortion(portion, { publish, ahead: this.#ahead })
    const last = portion[published - 1]
    if (last !== undefined) {
      const gone = await this.#reader.advance(last.end)
      this.#bytes = Math.max(this.#bytes - gone, 0)
    }
    if (failure !== undefined) throw failure
    return published
  }

  /**
   * Puts a message that the stream does not take, while it takes others, into a file of its own beside the segments,
   * so that it does not block the others and is not lost. Who opens the folder next tries it again: a server with
   * a larger `max_payload` takes it.
   *
   * There is always room for it, as its bytes only move within the folder; they count against the maximum as before.
   *
   * @param why  For the log.
   */
  async writeRefusedRecord (message: OutgoingMessage, why: string): Promise<void> {
    const file = path.join(this.#options.folder, `refused-${message.id.replaceAll(':', '-')}.record`)
    const record = Buffer.concat(encodeSpoolRecord(message))
    // One that is written again after a failure replaces itself.
    const before = await sizeOf(file)
    await writeFile(file, record, { flush: true })
    // Its segment is removed next: the name must outlast a power failure by then, too.
    await flushFolder(this.#options.folder)
    if (before === 0) this.#refused++
    this.#refusedBytes += record.length - before
    this.#options.logger.error({ file, bytes: message.payload.length, why }, 'set aside a spooled message in a file because its stream refuses it; fix the cause, then restart ingest to publish its events')
  }

  /** Stops writing and releases the folder; remaining messages are for the next process. */
  async close (): Promise<void> {
    await this.#writer.rotate()
    this.#options.lock.release()
  }

  /** All is published: removes the segment in hand too. */
  async #drop (): Promise<void> {
    if (this.#appending > 0) return
    const appends = this.#appends
    await this.#writer.rotate()
    // Reading removes the segments that were read to their end. What was appended meanwhile stays for the next call.
    const left = await this.#reader.read(this.#writer.position)
    if (left === null && this.#appends === appends) this.#bytes = 0
  }
}

/** What an earlier process left: the number of its last segment, and refused messages that cannot be read. */
interface Left { lastSegment: number, refused: number, refusedBytes: number }

/**
 * Puts messages that were refused behind the others, to be tried again: the file of each becomes a segment. So it needs
 * no room, and none is there twice, wherever it is interrupted.
 */
async function takeBackRefused ({ folder, logger }: SpoolOptions, last: number): Promise<Left> {
  const left: Left = { lastSegment: last, refused: 0, refusedBytes: 0 }
  for (const name of await readdir(folder)) {
    if (!REFUSED_RECORD.test(name)) continue
    const file = path.join(folder, name)
    if (decodeSpoolRecord(await readFile(file), 0).kind === 'message') {
      await rename(file, segmentPath(folder, ++left.lastSegment))
      continue
    }
    const bytes = await sizeOf(file)
    left.refused++
    left.refusedBytes += bytes
    logger.error({ file }, 'a refused message cannot be read; its file stays where it is')
  }
  await flushFolder(folder)
  return left
}

/** 0 for a file that is not there. */
async function sizeOf (file: string): Promise<number> {
  return (await stat(file, { throwIfNoEntry: false }))?.size ?? 0
}

/** Name of the file of a message that the stream refused. */
export const REFUSED_RECORD = /^refused-.*\.record$/
