/**
 * CityHash128 in its version 1.0.2, which ClickHouse keeps for the checksums of its compressed blocks. Later versions
 * give other numbers.
 *
 * After Google's public `city.cc` (MIT licence). Every step is a whole number modulo 2^64, kept so by `asUintN`, which
 * the optimizing compiler turns into plain machine words.
 */

const K0 = 0xc3a5c85c97cb3127n
const K1 = 0xb492b66fbe98f273n
const K2 = 0x9ae16a3b2f90404fn
const K3 = 0xc949d7c7509e6557n
const K_MUL = 0x9ddfea08eb382d69n

/** Lower and upper half. */
type Pair = [bigint, bigint]

/** Checksum of some bytes, as the 16 bytes that stand before a block. */
export function cityHash128 (bytes: Uint8Array): Buffer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const length = bytes.length
  let hash: Pair
  if (length >= 16) hash = withSeed(view, 16, length - 16, [fetch64(view, 0) ^ K3, fetch64(view, 8)])
  else if (length < 8) hash = withSeed(view, 0, length, [K0, K1])
  else hash = withSeed(view, 0, 0, [fetch64(view, 0) ^ u64(BigInt(length) * K0), fetch64(view, length - 8) ^ K1])
  const digest = Buffer.allocUnsafe(16)
  digest.writeBigUInt64LE(hash[0], 0)
  digest.writeBigUInt64LE(hash[1], 8)
  return digest
}

function withSeed (view: DataView, start: number, size: number, seed: Pair): Pair {
  if (size < 128) return murmur(view, start, size, seed)
  let at = start
  let length = size
  let [x, y] = seed
  let z = u64(K1 * BigInt(length))
  let v0 = u64(rotate(y ^ K1, 49n) * K1 + fetch64(view, at))
  let v1 = u64(rotate(v0, 42n) * K1 + fetch64(view, at + 8))
  let w0 = u64(rotate(u64(y + z), 35n) * K1 + x)
  let w1 = u64(rotate(u64(x + fetch64(view, at + 88)), 53n) * K1)
  for (; length >= 128; length -= 128) {
    for (let half = 0; half < 2; half++, at += 64) {
      x = u64(rotate(u64(x + y + v0 + fetch64(view, at + 16)), 37n) * K1) ^ w1
      y = u64(rotate(u64(y + v1 + fetch64(view, at + 48)), 42n) * K1) ^ v0
      z = rotate(z ^ w0, 33n)
      // Two weak hashes of 32 bytes each, written out: a pair returned here would be made for every 64 bytes.
      let a = u64(v1 * K1 + fetch64(view, at))
      let b = rotate(u64(u64(x + w0) + a + fetch64(view, at + 24)), 21n)
      let c = a
      a = u64(a + fetch64(view, at + 8) + fetch64(view, at + 16))
      b = u64(b + rotate(a, 44n))
      v0 = u64(a + fetch64(view, at + 24))
      v1 = u64(b + c)
      a = u64(z + w1 + fetch64(view, at + 32))
      b = rotate(u64(y + a + fetch64(view, at + 56)), 21n)
      c = a
      a = u64(a + fetch64(view, at + 40) + fetch64(view, at + 48))
      b = u64(b + rotate(a, 44n))
      w0 = u64(a + fetch64(view, at + 56))
      w1 = u64(b + c)
      const swap = z
      z = x
      x = swap
    }
  }
  y = u64(y + rotate(w0, 37n) * K0 + z)
  x = u64(x + rotate(u64(v0 + z), 49n) * K0)
  for (let done = 32; done - 32 < length; done += 32) {
    y = u64(rotate(u64(y - x), 42n) * K0 + v1)
    w0 = u64(w0 + fetch64(view, at + length - done + 16))
    x = u64(rotate(x, 49n) * K0 + w0)
    w0 = u64(w0 + v0);
    [v0, v1] = weakHash32(view, at + length - done, [v0, v1])
  }
  x = hash16(x, v0)
  y = hash16(y, w0)
  return [u64(hash16(u64(x + v1), w1) + y), hash16(u64(x + w1), u64(y + v1))]
}

function murmur (view: DataView, start: number, size: number, seed: Pair): Pair {
  let at = start
  let [a, b] = seed
  let c: bigint
  let d: bigint
  if (size <= 16) {
    a = u64(shiftMix(u64(a * K1)) * K1)
    c = u64(b * K1 + hash0to16(view, at, size))
    d = shiftMix(u64(a + (size >= 8 ? fetch64(view, at) : c)))
  } else {
    c = hash16(u64(fetch64(view, at + size - 8) + K1), a)
    d = hash16(u64(b + BigInt(size)), u64(c + fetch64(view, at + size - 16)))
    a = u64(a + d)
    for (let left = size - 16; left > 0; left -= 16, at += 16) {
      a = u64((a ^ u64(shiftMix(u64(fetch64(view, at) * K1)) * K1)) * K1)
      b ^= a
      c = u64((c ^ u64(shiftMix(u64(fetch64(view, at + 8) * K1)) * K1)) * K1)
      d ^= c
    }
  }
  a = hash16(a, c)
  b = hash16(d, b)
  return [a ^ b, hash16(b, a)]
}

function hash0to16 (view: DataView, at: number, size: number): bigint {
  const length = BigInt(size)
  if (size > 8) {
    const last = fetch64(view, at + size - 8)
    return hash16(fetch64(view, at), rotate(u64(last + length), length)) ^ last
  }
  if (size >= 4) return hash16(u64((fetch32(view, at) << 3n) + length), fetch32(view, at + size - 4))
  if (size === 0) return K2
  const y = view.getUint8(at) + (view.getUint8(at + (size >> 1)) << 8)
  const z = size + (view.getUint8(at + size - 1) << 2)
  return u64(shiftMix(u64(BigInt(y) * K2) ^ u64(BigInt(z) * K3)) * K2)
}

function weakHash32 (view: DataView, at: number, [seedA, seedB]: Pair): Pair {
  const last = fetch64(view, at + 24)
  const first = u64(seedA + fetch64(view, at))
  const middle = u64(first + fetch64(view, at + 8) + fetch64(view, at + 16))
  const b = rotate(u64(seedB + first + last), 21n)
  return [u64(middle + last), u64(b + rotate(middle, 44n) + first)]
}

function hash16 (u: bigint, v: bigint): bigint {
  const a = shiftMix(u64((u ^ v) * K_MUL))
  return u64(shiftMix(u64((v ^ a) * K_MUL)) * K_MUL)
}

/** @param by  1 to 63. */
function rotate (value: bigint, by: bigint): bigint {
  return (value >> by) | u64(value << (64n - by))
}

const shiftMix = (value: bigint): bigint => value ^ (value >> 47n)
const u64 = (value: bigint): bigint => BigInt.asUintN(64, value)
const fetch64 = (view: DataView, at: number): bigint => view.getBigUint64(at, true)
const fetch32 = (view: DataView, at: number): bigint => BigInt(view.getUint32(at, true))
