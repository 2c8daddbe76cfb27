import zlib from 'node:zlib'
import { FINGERPRINT_BYTES, type FingerprintKey, FingerprintWriter, UNTIMED_UUID_AT } from '../../schema/wire/frame-message.ts'
import { AcceptedCounter } from '../../schema/wire/ledger.ts'
import type { EventClass } from '../../schema/wire/streams.ts'
import type { EventRow } from '../event.ts'
import { BlockEncoder } from './block-encoder.ts'

/** A message of EVENTS without its address: see `schema/wire/frame-message.ts`. */
export interface EncodedFrame {
  /** Fingerprints and frame. */
  payload: Buffer
  rows: number
  /** When the first event of the frame was received, epoch milliseconds. */
  receivedAt: number
  /** When the oldest uuid of the frame was made, epoch milliseconds; Infinity when none tells. */
  oldestUuidAt: number
  /** Under which key the fingerprints are made; empty while it is not known. */
  keyId: string
  /** Events by project and minute of receipt, as the header has them. */
  accepted: string
}

/** Level 1 gives 5.8 times on a few hundred events for 1 us each; higher levels cost more than they save. */
const ZSTD_OPTIONS = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }

/** Collects rows and turns them into the payload of one message. Keeps its buffers from frame to frame. */
export class FrameEncoder {
  readonly #block = new BlockEncoder()
  readonly #accepted = new AcceptedCounter()
  readonly #key: () => FingerprintKey | null
  readonly #untimedUuidAt: number
  #writer = new FingerprintWriter(null)
  #writerKey: FingerprintKey | null = null
  #receivedAt = 0

  /**
   * @param key         Tells the secret of fingerprints, null until it is known.
   * @param eventClass  Of the partition that the frames are for.
   */
  constructor (key: () => FingerprintKey | null, eventClass: EventClass) {
    this.#key = key
    this.#untimedUuidAt = UNTIMED_UUID_AT[eventClass]
  }

  get rows (): number {
    return this.#block.rows
  }

  /** About the size of the block before compression. */
  get bytes (): number {
    return this.#block.bytes
  }

  /** Bytes of memory that is kept from frame to frame. */
  get capacity (): number {
    return this.#block.capacity
  }

  append (row: EventRow): void {
    if (this.#block.rows === 0) this.#receivedAt = row.receivedAt
    this.#block.append(row)
    this.#accepted.add(row.projectId, row.receivedAt)
  }

  /** Takes the collected rows as one payload and starts over. */
  take (): EncodedFrame {
    const rows = this.#block.rows
    const frame = zlib.zstdCompressSync(this.#block.finish(), ZSTD_OPTIONS)
    const payload = Buffer.allocUnsafeSlow(rows * FINGERPRINT_BYTES + frame.length)
    this.#writeFingerprints(payload)
    const oldestUuidAt = findOldestUuid(this.#block.uuids, rows, this.#untimedUuidAt)
    payload.set(frame, rows * FINGERPRINT_BYTES)
    const receivedAt = this.#receivedAt
    this.#block.reset()
    return { payload, rows, receivedAt, oldestUuidAt, keyId: this.#writerKey?.id ?? '', accepted: this.#accepted.take() }
  }

  #writeFingerprints (payload: Buffer): void {
    const key = this.#key()
    if (key !== this.#writerKey) {
      this.#writerKey = key
      this.#writer = new FingerprintWriter(key)
    }
    const into = new DataView(payload.buffer, payload.byteOffset)
    const { rows, projectIds, uuids, events, distinctIds, timestamps } = this.#block
    const event = { projectId: 0, event: '', timestamp: 0, uuid: uuids, uuidOffset: 0, distinctId: distinctIds, from: 0, to: 0 }
    let at = 0
    for (let row = 0; row < rows; row++) {
      let length = 0
      for (let shift = 0; ; shift += 7) {
        const byte = distinctIds[at++] as number
        length += (byte & 0x7f) * 2 ** shift
        if (byte < 0x80) break
      }
      event.projectId = projectIds.getUint32(row * 4, true)
      event.event = events.valueAt(row)
      event.timestamp = timestamps.getInt32(row * 8 + 4, true) * 0x1_0000_0000 + timestamps.getUint32(row * 8, true)
      event.uuidOffset = row * 16
      event.from = at
      event.to = at += length
      this.#writer.write(into, row * FINGERPRINT_BYTES, event)
    }
  }
}

/** A message is closed at whichever comes first; JetStream is cheapest around a megabyte before compression. */
const MAX_ROWS = 1000
const MAX_BLOCK_BYTES = 786_432

/** A larger row travels alone. With the bound above, every other message fits a server with its default of 1 MiB. */
const LARGE_ROW_BYTES = 131_072

/** Whether a message takes no more rows. */
export function isFull (encoder: FrameEncoder): boolean {
  return encoder.rows >= MAX_ROWS || encoder.bytes >= MAX_BLOCK_BYTES
}

/** Whether the open message should leave before this row is added. */
export function needsNewMessage (row: EventRow): boolean {
  return row.properties.length + row.propertyTypes.length > LARGE_ROW_BYTES
}

/** Reads the time of each uuid of version 7: its first 48 bits. A column keeps both halves of a uuid reversed. */
function findOldestUuid (uuids: DataView, rows: number, untimedAt: number): number {
  let oldest = Infinity
  for (let at = 0; at < rows * 16; at += 16) {
    const low = uuids.getUint32(at, true)
    const isTimed = ((low >>> 12) & 0xf) === 7
    oldest = Math.min(oldest, isTimed ? uuids.getUint32(at + 4, true) * 0x10000 + (low >>> 16) : untimedAt)
  }
  return oldest
}
