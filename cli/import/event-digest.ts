/**
 * Checksums of events by UTC day and name that do not depend on their order: count, XOR and sum (mod 2^64) of a 64-bit
 * hash of each. Computed of the files here, and of stored events by the API.
 */
import { appendFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import type { ImportedEvent } from '../../engines/import/imported-event.ts'
import { SipHasher } from '../../schema/sip-hash.ts'

export const DAY_MS = 86_400_000

/** Such as `2026-11-26`, of days since 1970. */
export const formatDay = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)

export interface Digest {
  /** UTC day, as days since 1970. */
  day: number
  event: string
  count: number
  /** Of uuid, event, distinct id and timestamp. */
  xor: bigint
  sum: bigint
  /** Of the properties as well; rules, schemas and enrichment may change them. */
  withProperties: bigint
}

export const keyOf = ({ day, event }: Pick<Digest, 'day' | 'event'>): string => `${day} ${event}`

export interface EventHashes { identity: bigint, properties: bigint }

/** What makes an event one, of those of a day. */
export type EventKey = Pick<ImportedEvent, 'uuid' | 'event' | 'distinct_id'>

/** What makes a copy of an event, of which one may be stored and another one too large. */
export type EventContent = EventKey & Pick<ImportedEvent, 'timestamp' | 'json'>

const hasher = new SipHasher([0, 0, 0, 0])
const encoder = new TextEncoder()
/** A buffer for each text would be garbage outside of the heap, which piles up. */
const scratch = new Uint8Array(65_536)

/** Writes what `sipHash64` of ClickHouse gives for the same bytes. As numbers of 64 bits they would be garbage. */
function writeHash (view: DataView, at: number, text: string): void {
  hasher.reset()
  // A unit of UTF-16 takes three bytes at most.
  if (3 * text.length > scratch.length) hasher.writeBytes(Buffer.from(text))
  else hasher.writeBytes(scratch, 0, encoder.encodeInto(text, scratch).written)
  hasher.hash()
  view.setInt32(at, hasher.low, true)
  view.setInt32(at + 4, hasher.high, true)
}

/** Writes two hashes: the same as the API computes of stored events (`/events/digests`). */
function writeHashes (view: DataView, at: number, event: EventContent): void {
  writeHash(view, at, `${event.uuid}\n${event.event}\n${event.distinct_id}\n${event.timestamp}`)
  writeHash(view, at + 8, event.json)
}

const copy = Buffer.alloc(16)
const viewOfCopy = new DataView(copy.buffer, copy.byteOffset)

/** The name of a copy of an event: both hashes, in hexadecimal. */
export function nameCopy (event: EventContent): string {
  writeHashes(viewOfCopy, 0, event)
  return copy.toString('hex')
}

/** What an event of the files is to the stored ones; `seen`: it came before. */
export type Comparison = 'equal' | 'missing' | 'changed' | 'properties' | 'seen'

const WORD = 2n ** 64n - 1n
const SEEN = -1n

/** Stored events, to compare those of the files with. */
export class EventTable {
  /** Both hashes, in one number, of each stored event; `SEEN` since it came in the files. */
  readonly #hashes = new Map<bigint, bigint>()
  readonly #event = new DataView(new ArrayBuffer(16))

  addStored (day: string, { identity, properties, ...key }: EventKey & EventHashes): void {
    this.#hashes.set(this.#keyOf(day, key), (identity << 64n) + properties)
  }

  compare (day: string, event: ImportedEvent): Comparison {
    const key = this.#keyOf(day, event)
    const stored = this.#hashes.get(key)
    this.#hashes.set(key, SEEN)
    if (stored === undefined) return 'missing'
    if (stored === SEEN) return 'seen'
    writeHashes(this.#event, 0, event)
    if (stored >> 64n !== this.#event.getBigUint64(0, true)) return 'changed'
    return (stored & WORD) === this.#event.getBigUint64(8, true) ? 'equal' : 'properties'
  }

  #keyOf (day: string, { uuid, event, distinct_id: id }: EventKey): bigint {
    writeHash(this.#event, 0, `${day}\n${uuid}\n${event}\n${id}`)
    return this.#event.getBigUint64(0)
  }
}

/** Bytes of an event on disk: what makes it one, its group, and its two hashes. */
const RECORD_BYTES = 28
const BUCKETS = 256
const BUFFERED_RECORDS = 500

/**
 * Collects the events of an import and counts each once, as the store does. They wait in files by their identity, so
 * that one of 256 parts is in memory at a time.
 */
export class DigestCollector {
  readonly #folder: string
  readonly #digests: Digest[] = []
  /** Positions of the digests, by day and name. */
  readonly #groups = new Map<string, number>()
  readonly #key = new DataView(new ArrayBuffer(8))
  readonly #buffers = Array.from({ length: BUCKETS }, () =>
    ({ view: new DataView(new ArrayBuffer(RECORD_BYTES * BUFFERED_RECORDS)), used: 0 }))

  /** Events, each as often as it came; the caller takes off those that are refused. */
  events = 0

  /** After `finish`: rows with another time or other properties than the first of the same event, by day and name. */
  readonly conflicts = new Map<string, number>()

  /** @param folder  For its files; it is removed by `finish`. */
  constructor (folder: string) {
    this.#folder = folder
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
  }

  add (event: ImportedEvent): void {
    this.events++
    writeHash(this.#key, 0, `${event.uuid}\n${event.event}\n${event.distinct_id}`)
    const index = this.#key.getUint32(0, true) % BUCKETS
    const buffer = this.#buffers[index]!
    const { view, used } = buffer
    view.setUint32(used, this.#key.getUint32(0))
    view.setUint32(used + 4, this.#key.getUint32(4))
    view.setUint32(used + 8, this.#groupOf(event), true)
    writeHashes(view, used + 12, event)
    buffer.used += RECORD_BYTES
    if (buffer.used === view.byteLength) this.#write(index)
  }

  #groupOf ({ event, timestamp }: ImportedEvent): number {
    const day = Math.floor(timestamp / DAY_MS)
    const key = keyOf({ day, event })
    const known = this.#groups.get(key)
    if (known !== undefined) return known
    this.#groups.set(key, this.#digests.length)
    return this.#digests.push({ day, event, count: 0, xor: 0n, sum: 0n, withProperties: 0n }) - 1
  }

  #write (index: number): void {
    const buffer = this.#buffers[index]!
    appendFileSync(path.join(this.#folder, String(index)), new Uint8Array(buffer.view.buffer, 0, buffer.used))
    buffer.used = 0
  }

  /**
   * @param isRefused  Whether a copy of an event, by its name, was refused: it counts for nothing. Default: none was.
   * @returns the digests, each event counted once, in order of day and name.
   */
  finish (isRefused?: (copy: string) => boolean): Digest[] {
    for (let index = 0; index < BUCKETS; index++) {
      this.#write(index)
      this.#countBucket(path.join(this.#folder, String(index)), isRefused)
    }
    rmSync(this.#folder, { recursive: true, force: true })
    return this.#digests.filter(({ count }) => count > 0).sort((a, b) => a.day - b.day || (a.event < b.event ? -1 : 1))
  }

  #countBucket (file: string, isRefused?: (copy: string) => boolean): void {
    const bytes = readFileSync(file)
    /** The events that were counted, by what makes each one: a day off is the same event. */
    const counted = new Map<bigint, (EventHashes & { day: number })[]>()
    for (let at = 0; at < bytes.length; at += RECORD_BYTES) {
      const key = bytes.readBigUInt64LE(at)
      if (isRefused?.(bytes.toString('hex', at + 12, at + RECORD_BYTES)) === true) continue
      const digest = this.#digests[bytes.readUInt32LE(at + 8)]!
      const { day, event } = digest
      const [identity, properties] = [bytes.readBigUInt64LE(at + 12), bytes.readBigUInt64LE(at + 20)]
      const before = counted.get(key) ?? []
      const same = before.find((other) => Math.abs(other.day - day) <= 1)
      if (same === undefined) {
        counted.set(key, [...before, { day, identity, properties }])
        digest.count++
        digest.xor ^= identity
        digest.sum = (digest.sum + identity) & WORD
        digest.withProperties = (digest.withProperties + (identity ^ properties)) & WORD
      } else if (same.identity !== identity || same.properties !== properties) {
        const group = `${formatDay(day)} ${event}`
        this.conflicts.set(group, (this.conflicts.get(group) ?? 0) + 1)
      }
    }
  }
}
