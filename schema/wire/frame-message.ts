import { createHash } from 'node:crypto'
import { readSipKey, SipHasher, type SipKey } from '../sip-hash.ts'
import type { EventClass } from './streams.ts'

/**
 * The payload of a message of EVENTS:
 *
 * ```
 * +---------------------------------------+-------------------------------------------+
 * | fingerprints: rows x 12 bytes         | frame: one zstd frame of one Native block |
 * +---------------------------------------+-------------------------------------------+
 *   row 0, row 1, ... in row order           the rows, layout as the header says
 *
 * a fingerprint:  | uuid hash |           | check low    | check high |      three 32-bit words, little-endian
 *                 32 mixed bits of        64 keyed bits of project, uuid, event and distinct_id;
 *                 project and uuid        the day of the timestamp is added to the low word
 * ```
 *
 * Fingerprints let the writer recognise a duplicate without inflating the frame. Anybody can compute the uuid hash. The
 * check is SipHash under a secret of the deployment: nobody who sends events can make the checks of two different
 * events meet, and 96 bits do not meet by chance (with six million events remembered, one in 10^21). The day is added,
 * not hashed, because the clock of a second sending may be corrected across midnight: checks that differ by one are
 * the same event, too.
 *
 * Uuids made by the server have a fingerprint as well: a message whose acknowledgement was lost may come again through
 * the spool, long after the stream forgot its id. A check of zero says that ingest did not know the secret; the header
 * with the key's id is missing then, and the writer asks ClickHouse about each row.
 */
export const FINGERPRINT_BYTES = 12

/**
 * When a uuid counts as made, in epoch milliseconds, that is not of version 7 and tells no time. Among historical
 * events, which are imported again weeks after the first time, it is older than every memory; among live ones, younger.
 */
export const UNTIMED_UUID_AT = { live: Infinity, historical: 0 } satisfies Record<EventClass, number>

/** The frame of a payload, without copying. */
export function frameOf (payload: Uint8Array, rows: number): Uint8Array {
  return payload.subarray(rows * FINGERPRINT_BYTES)
}

/** The deployment's secret for checks, from the table `fingerprint_keys` of Postgres. */
export interface FingerprintKey {
  /** Tells keys apart without telling them: 16 hexadecimal digits. */
  id: string
  secret: SipKey
}

/** @param bytes  16 random bytes. */
export function createFingerprintKey (bytes: Uint8Array): FingerprintKey {
  return { id: createHash('sha256').update(bytes).digest('hex').slice(0, 16), secret: readSipKey(bytes) }
}

/** What a fingerprint is made of. */
export interface FingerprintedEvent {
  projectId: number
  event: string
  /** Epoch milliseconds. */
  timestamp: number
  /**
   * View of the 16 uuid bytes at `uuidOffset` as the Native column holds them: each of the two 64-bit halves with its
   * bytes reversed. Every process must use this order, or fingerprints do not meet.
   */
  uuid: DataView
  uuidOffset: number
  /** UTF-8, from byte `from` to byte `to` (exclusive). */
  distinctId: Uint8Array
  from: number
  to: number
}

const DAY_MS = 86_400_000

/** Maximum cached hashes of event names, which repeat. */
const MAX_NAMES = 10_000

/** Writes the fingerprints of events. */
export class FingerprintWriter {
  readonly #hasher: SipHasher | null
  readonly #names = new Map<string, readonly [low: number, high: number]>()

  /** @param key  Null while the secret is not known: checks are zero. */
  constructor (key: FingerprintKey | null) {
    this.#hasher = key === null ? null : new SipHasher(key.secret)
  }

  /** Writes the 12 bytes of one event to `into` at `offset`. */
  write (into: DataView, offset: number, event: FingerprintedEvent): void {
    into.setInt32(offset, hashUuid(event), true)
    const hasher = this.#hasher
    if (hasher === null) {
      into.setInt32(offset + 4, 0)
      into.setInt32(offset + 8, 0)
      return
    }
    const { uuid, uuidOffset } = event
    const name = this.#hashOfName(hasher, event.event)
    hasher.reset()
    hasher.writeUInt32(name[0])
    hasher.writeUInt32(name[1])
    hasher.writeUInt32(event.projectId)
    for (let at = 0; at < 16; at += 4) hasher.writeUInt32(uuid.getInt32(uuidOffset + at, true))
    hasher.writeBytes(event.distinctId, event.from, event.to)
    hasher.hash()
    into.setInt32(offset + 4, hasher.low + Math.floor(event.timestamp / DAY_MS), true)
    into.setInt32(offset + 8, hasher.high, true)
  }

  #hashOfName (hasher: SipHasher, name: string): readonly [low: number, high: number] {
    const known = this.#names.get(name)
    if (known !== undefined) return known
    hasher.reset()
    hasher.writeBytes(Buffer.from(name))
    hasher.hash()
    const hash = [hasher.low, hasher.high] as const
    if (this.#names.size >= MAX_NAMES) this.#names.clear()
    this.#names.set(name, hash)
    return hash
  }
}

/**
 * 32 mixed bits of project and uuid, never 0: the four words of the uuid and the project id go through a
 * multiply-xorshift mix, because uuids other than v4 and v7 keep their entropy in few, known bits.
 */
export function hashUuid (
  { projectId, uuid, uuidOffset }: Pick<FingerprintedEvent, 'projectId' | 'uuid' | 'uuidOffset'>
): number {
  const a = uuid.getUint32(uuidOffset)
  const b = uuid.getUint32(uuidOffset + 4)
  const c = uuid.getUint32(uuidOffset + 8)
  const d = uuid.getUint32(uuidOffset + 12)
  return mix(mix(mix(mix(mix(projectId | 0, a), b), c), d), 0x27d4eb2f) || 1
}

/** Finalizer constants of murmur3 (32 bit), which avalanche well on few bits of input. */
function mix (state: number, word: number): number {
  let x = Math.imul(state ^ word, 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return (x ^ (x >>> 16)) + 0x9e3779b9 | 0
}
