/** Blocks of LZ4 (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), which Node does not have. */

const MIN_MATCH = 4
/** The last match must begin this far from the end, and the last bytes are always literals. */
const LAST_MATCH_BEFORE_END = 12
const LAST_LITERALS = 5
const MAX_DISTANCE = 65_535
const HASH_BITS = 14
const TABLE = new Int32Array(1 << HASH_BITS)

/** Compresses at once, greedily, by a table of where each four bytes were seen last. */
export function compressLz4 (source: Uint8Array): Buffer {
  const view = new DataView(source.buffer, source.byteOffset, source.byteLength)
  const target = Buffer.allocUnsafe(source.length + Math.ceil(source.length / 255) + 16)
  const matchEnd = source.length - LAST_LITERALS
  const searchEnd = source.length - LAST_MATCH_BEFORE_END
  TABLE.fill(-1)
  let out = 0
  let literals = 0
  let at = 0
  // Longer steps where nothing repeats: what cannot be compressed costs little.
  let misses = 0
  while (at < searchEnd) {
    const four = view.getUint32(at, true)
    const slot = Math.imul(four, 2_654_435_761) >>> (32 - HASH_BITS)
    const seen = TABLE[slot]!
    TABLE[slot] = at
    if (seen === -1 || at - seen > MAX_DISTANCE || view.getUint32(seen, true) !== four) {
      at += 1 + (misses++ >> 6)
      continue
    }
    misses = 0
    let length = MIN_MATCH
    while (at + length < matchEnd && source[seen + length] === source[at + length]) length++
    out = writeSequence(target, out, source.subarray(literals, at), { distance: at - seen, length })
    at += length
    literals = at
  }
  out = writeSequence(target, out, source.subarray(literals), undefined)
  return target.subarray(0, out)
}

function writeSequence (
  target: Buffer, start: number, literals: Uint8Array, match: { distance: number, length: number } | undefined
): number {
  const matched = match === undefined ? 0 : match.length - MIN_MATCH
  target[start] = (Math.min(literals.length, 15) << 4) | Math.min(matched, 15)
  let out = writeMore(target, start + 1, literals.length)
  target.set(literals, out)
  out += literals.length
  if (match === undefined) return out
  target.writeUInt16LE(match.distance, out)
  return writeMore(target, out + 2, matched)
}

/** What of a length does not fit into its half of the token. */
function writeMore (target: Buffer, start: number, length: number): number {
  if (length < 15) return start
  let out = start
  let rest = length - 15
  for (; rest >= 255; rest -= 255) target[out++] = 255
  target[out++] = rest
  return out
}
