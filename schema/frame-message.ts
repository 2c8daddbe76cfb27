/**
 * The payload of a message of EVENTS:
 *
 * ```
 * +--------------------------------------+-------------------------------------------+
 * | fingerprints: rows x 8 bytes         | frame: one zstd frame of one Native block |
 * +--------------------------------------+-------------------------------------------+
 *   row 0, row 1, ... in row order          the rows, layout as the header says
 * ```
 *
 * Fingerprints let the writer see that an uuid was stored before without inflating the frame. A fingerprint is 64
 * mixed bits of project and uuid; equal fingerprints are only a hint, the uuids themselves decide. Uuids made by the
 * server have one too: a message whose ack was lost may come again through the spool, long after the stream forgot
 * its id. All zero is never written and means "nothing is known".
 */
export const FINGERPRINT_BYTES = 8

/** The frame of a payload, without copying. */
export function frameOf (payload: Uint8Array, rows: number): Uint8Array {
  return payload.subarray(rows * FINGERPRINT_BYTES)
}

/**
 * Writes the fingerprint of one event.
 *
 * The four words of the uuid and the project id go through a multiply-xorshift mix, because uuids other than v4 and
 * v7 keep their entropy in few, known bits.
 *
 * @param into    Where the 8 bytes go.
 * @param offset  Byte position in `into`.
 * @param uuid    View of the 16 uuid bytes at `uuidOffset` as the Native column holds them: each of the two 64-bit
 *                halves with its bytes reversed. Every process must use this order, or fingerprints do not meet.
 */
export function writeFingerprint (
  into: DataView, offset: number, projectId: number, uuid: DataView, uuidOffset: number
): void {
  const a = uuid.getUint32(uuidOffset)
  const b = uuid.getUint32(uuidOffset + 4)
  const c = uuid.getUint32(uuidOffset + 8)
  const d = uuid.getUint32(uuidOffset + 12)
  let low = mix(mix(mix(mix(mix(projectId | 0, a), b), c), d), 0x27d4eb2f)
  const high = mix(mix(mix(mix(mix(~projectId, d), c), b), a), 0x165667b1)
  // All zero is reserved for "nothing is known".
  if (low === 0 && high === 0) low = 1
  into.setInt32(offset, low, true)
  into.setInt32(offset + 4, high, true)
}

/** Finalizer constants of murmur3 (32 bit), which avalanche well on few bits of input. */
function mix (state: number, word: number): number {
  let x = Math.imul(state ^ word, 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return (x ^ (x >>> 16)) + 0x9e3779b9 | 0
}
