import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from '../../platform/logger.ts'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import { listSegments, segmentPath, type SpoolPosition } from './segment-writer.ts'
import { decodeSpoolRecord, MAGIC } from './spool-record.ts'

/** Records are read and published in portions of about this size. */
const PORTION_BYTES = 4_194_304

/** A message, and where the reader stands behind it. */
export interface SpooledMessage {
  message: OutgoingMessage
  end: SpoolPosition
}

/**
 * Reads the segments of a folder in order, and removes them once their records are published.
 *
 * How far it came is kept in the file `position`, without fsync: after a crash some records may be published again,
 * with the same message ids.
 */
export class SegmentReader {
  readonly #folder: string
  readonly #logger: Logger
  #at: SpoolPosition = { segment: 0, offset: 0 }
  #damaged = false

  constructor (folder: string, logger: Logger) {
    this.#folder = folder
    this.#logger = logger
  }

  /**
   * Finds the place where an earlier process stopped.
   *
   * @returns the highest number a segment ever had, as far as known: numbers must not be used twice, or a saved place
   *   would point into another segment.
   */
  async open (): Promise<number> {
    const segments = await listSegments(this.#folder)
    const saved = await this.#loadPosition()
    const oldest = segments[0] ?? 0
    this.#at = saved !== null && saved.segment === oldest ? saved : { segment: oldest, offset: 0 }
    return Math.max(segments.at(-1) ?? 0, saved?.segment ?? 0)
  }

  /**
   * Reads the next records that are durable.
   *
   * @param limit  Position of the writer; null when there is no writer and everything may be read.
   * @returns null when there is nothing left to read.
   */
  async read (limit: SpoolPosition | null): Promise<SpooledMessage[] | null> {
    for (const segment of await listSegments(this.#folder)) {
      if (segment < this.#at.segment || (limit !== null && segment > limit.segment)) continue
      if (segment > this.#at.segment) this.#at = { segment, offset: 0 }
      const isOpen = limit !== null && segment === limit.segment
      const size = isOpen ? limit.offset : (await stat(segmentPath(this.#folder, segment))).size
      const portion = await this.#readSegment(size)
      if (portion !== null) return portion
      if (isOpen) return null
      await this.#finishSegment()
    }
    return null
  }

  /**
   * Forgets what was published: everything up to `end`.
   *
   * @returns the bytes that were given up.
   */
  async advance (end: SpoolPosition): Promise<number> {
    const bytes = end.offset - this.#at.offset
    this.#at = end
    await writeFile(path.join(this.#folder, 'position'), JSON.stringify(end))
    return bytes
  }

  /** Records from the current place on; null at the end of the segment. */
  async #readSegment (size: number): Promise<SpooledMessage[] | null> {
    let bytesToRead = PORTION_BYTES
    while (this.#at.offset < size) {
      const bytes = await this.#readBytes(Math.min(bytesToRead, size - this.#at.offset))
      const { messages, consumed, neededBytes } = this.#decode(bytes, this.#at.offset + bytes.length >= size)
      if (messages.length > 0) return messages
      // Damage was skipped, or one record is larger than a portion.
      this.#at = { segment: this.#at.segment, offset: this.#at.offset + consumed }
      bytesToRead = Math.max(neededBytes, PORTION_BYTES)
    }
    return null
  }

  #decode (bytes: Buffer, isAll: boolean): { messages: SpooledMessage[], consumed: number, neededBytes: number } {
    const messages: SpooledMessage[] = []
    const { segment, offset } = this.#at
    let at = 0
    while (at < bytes.length) {
      const record = decodeSpoolRecord(bytes, at)
      if (record.kind === 'message') {
        at = record.end
        messages.push({ message: record.message, end: { segment, offset: offset + at } })
      } else if (record.kind === 'incomplete' && !isAll) {
        return { messages, consumed: at, neededBytes: record.neededBytes }
      } else {
        // Behind a damaged record others may be whole. A torn one is the last: nothing follows it.
        const next = record.kind === 'damaged' ? record.next : bytes.indexOf(MAGIC, at + 1)
        this.#reportDamage(at, isAll && next === -1)
        // The magic of the next record may begin in these bytes and end in the following ones.
        at = next !== -1 ? next : isAll ? bytes.length : Math.max(at + 1, bytes.length - MAGIC.length + 1)
      }
    }
    return { messages, consumed: at, neededBytes: 0 }
  }

  #reportDamage (at: number, isTorn: boolean): void {
    const where = { folder: this.#folder, segment: this.#at.segment, offset: this.#at.offset + at }
    if (isTorn) {
      // A write that was cut off by a crash: its request was never answered with 200.
      this.#logger.warn(where, 'dropped an incomplete record at the end of a spool segment; its request was not acknowledged')
    } else {
      this.#damaged = true
      this.#logger.error(where, 'skipped a damaged record of a spool segment; the segment will be kept as <segment>.damaged')
    }
  }

  async #readBytes (length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(Math.max(length, 0))
    await using file = await open(segmentPath(this.#folder, this.#at.segment), 'r')
    const { bytesRead } = await file.read(bytes, 0, bytes.length, this.#at.offset)
    return bytes.subarray(0, bytesRead)
  }

  /** A segment with a damaged record is kept under another name, for inspection. */
  async #finishSegment (): Promise<void> {
    const file = segmentPath(this.#folder, this.#at.segment)
    if (this.#damaged) await rename(file, `${file}.damaged`)
    else await rm(file, { force: true })
    this.#damaged = false
    this.#at = { segment: this.#at.segment + 1, offset: 0 }
  }

  async #loadPosition (): Promise<SpoolPosition | null> {
    try {
      return JSON.parse(await readFile(path.join(this.#folder, 'position'), 'utf8')) as SpoolPosition
    } catch {
      // Safe to ignore: absent or torn, and reading from the start only repeats messages under their ids.
      return null
    }
  }
}
