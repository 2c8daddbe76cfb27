import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { flushFolder } from '../../platform/durable-folder.ts'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import { encodeSpoolRecord } from './spool-record.ts'

/** A new segment is begun beyond this size, so that drained ones can be removed piece by piece. */
const SEGMENT_BYTES = 16_777_216

/** How far the segments are durable: what a reader may read. */
export interface SpoolPosition {
  segment: number
  offset: number
}

interface QueuedRecord {
  pieces: Buffer[]
  bytes: number
  resolve: () => void
  reject: (error: unknown) => void
}

/**
 * Appends messages to segment files. Messages queued during a write are written next, together, with one
 * fsync: the cost of durability is shared by all requests that wait for it.
 */
export class SegmentWriter {
  readonly #folder: string
  readonly #onSynced: (bytes: number) => void
  #segment: number
  #offset = 0
  #file: FileHandle | null = null
  #queue: QueuedRecord[] = []
  #writing: Promise<void> | null = null

  /**
   * @param firstSegment  Number of the first segment to write; higher than any in the folder.
   * @param onSynced      Called with the bytes of each durable write.
   */
  constructor (folder: string, firstSegment: number, onSynced: (bytes: number) => void) {
    this.#folder = folder
    this.#segment = firstSegment
    this.#onSynced = onSynced
  }

  /** Where the next durable record will begin. */
  get position (): SpoolPosition {
    return { segment: this.#segment, offset: this.#offset }
  }

  /** Resolves when the message is on the disk; rejects when it cannot be, and then leaves nothing of it. */
  append (message: OutgoingMessage): Promise<void> {
    const pieces = encodeSpoolRecord(message)
    const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0)
    return new Promise((resolve, reject) => {
      this.#queue.push({ pieces, bytes, resolve, reject })
      this.#writing ??= this.#writeAll()
    })
  }

  /** Ends the segment in hand, so that the next record begins a new one. */
  async rotate (): Promise<void> {
    while (this.#writing !== null) await this.#writing
    await this.#closeSegment()
  }

  async #writeAll (): Promise<void> {
    while (this.#queue.length > 0) {
      const records = this.#queue
      this.#queue = []
      try {
        await this.#write(records)
        for (const record of records) record.resolve()
      } catch (error) {
        await this.#undo()
        for (const record of records) record.reject(error)
      }
    }
    // Synchronously: messages appended before a promise could resolve would wait for the next append.
    this.#writing = null
  }

  async #write (records: QueuedRecord[]): Promise<void> {
    if (this.#offset >= SEGMENT_BYTES) await this.#closeSegment()
    const file = this.#file ??= await this.#openSegment()
    const bytes = records.reduce((sum, record) => sum + record.bytes, 0)
    let pieces = records.flatMap((record) => record.pieces)
    let at = this.#offset
    while (pieces.length > 0) {
      // The system takes 1024 pieces at a time, and may take less of them than it was given when the disk is full.
      const some = pieces.slice(0, 1023)
      const { bytesWritten } = await file.writev(some, at)
      if (bytesWritten === 0) throw new Error('could not write to the spool')
      at += bytesWritten
      pieces = dropBytes(pieces, bytesWritten)
    }
    await file.datasync()
    this.#offset = at
    this.#onSynced(bytes)
  }

  async #openSegment (): Promise<FileHandle> {
    const file = this.#file = await open(segmentPath(this.#folder, this.#segment), 'wx')
    await flushFolder(this.#folder).catch(async (error: unknown) => {
      // The name may not outlast a crash: the next record begins another segment.
      await this.#closeSegment()
      throw error
    })
    return file
  }

  /** Leaves no file of a segment without records: it would count as work. */
  async #closeSegment (): Promise<void> {
    const file = this.#file
    const { segment, offset } = this.position
    if (file === null) return
    this.#file = null
    this.#segment++
    this.#offset = 0
    await file.close()
    if (offset === 0) await rm(segmentPath(this.#folder, segment), { force: true })
  }

  /** Cuts off what a failed write left behind; when even that fails, the checksum tells it from a record. */
  async #undo (): Promise<void> {
    try {
      await this.#file?.truncate(this.#offset)
      await this.#file?.datasync()
    } catch {
      // Safe to ignore: the next record begins a new segment, and the rest of this one is read as torn.
      await this.#closeSegment().catch(() => {})
    }
  }
}

function dropBytes (pieces: Buffer[], bytes: number): Buffer[] {
  let index = 0
  while (index < pieces.length && bytes >= (pieces[index] as Buffer).length) bytes -= (pieces[index++] as Buffer).length
  const rest = pieces.slice(index)
  if (bytes > 0) rest[0] = (rest[0] as Buffer).subarray(bytes)
  return rest
}

const SEGMENT_NAME = /^\d{12}\.segment$/

/** Numbers of the segments of a spool folder, oldest first. */
export async function listSegments (folder: string): Promise<number[]> {
  const names = (await readdir(folder)).filter((name) => SEGMENT_NAME.test(name))
  return names.map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b)
}

export function segmentPath (folder: string, number: number): string {
  return path.join(folder, `${String(number).padStart(12, '0')}.segment`)
}
