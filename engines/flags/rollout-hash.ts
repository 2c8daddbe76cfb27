import { hash } from 'node:crypto'
import type { FlagDefinition } from './flag-definition.ts'
import type { Subject } from './subject.ts'

/** The request names no group of the type that the condition aggregates by. */
export const NO_GROUP = Symbol('no group')

/** The flag hashes device ids and the request has none. */
export const NO_DEVICE = Symbol('no device')

/** Postgres may hold a hash key for this person, and has not been read. */
export const UNREAD_IDENTIFIER = Symbol('unread identifier')

export type Identifier = string | typeof NO_GROUP | typeof NO_DEVICE | typeof UNREAD_IDENTIFIER

/** Returns the identifier of a subject that is hashed. */
export type Identify = (subject: Subject) => Identifier

/**
 * Compiles which identifier is hashed: the group key, the device id, or the distinct id. With experience continuity it
 * is the stored hash key of the person, else the anonymous id, else the distinct id.
 *
 * @param aggregation  Index of the group type that the condition aggregates by; null for persons.
 */
export function compileIdentify (flag: FlagDefinition, aggregation: number | null): Identify {
  if (aggregation !== null) {
    return (subject) => {
      const key = subject.groupKeys[aggregation]
      return key === undefined || key === '' ? NO_GROUP : key
    }
  }
  if (flag.bucketing_identifier === 'device_id') {
    return ({ deviceId }) => (deviceId === null || deviceId === '' ? NO_DEVICE : deviceId)
  }
  if (!flag.ensure_experience_continuity) return ({ distinctId }) => distinctId
  return (subject) => {
    const { stored } = subject
    if (stored === null) return UNREAD_IDENTIFIER
    const override = stored.hashKeyOverrides.get(flag.key)
    if (override === undefined && stored.hashKeysUnknown) return UNREAD_IDENTIFIER
    return override ?? subject.anonDistinctId ?? subject.distinctId
  }
}

/** Whether the request has the identifier that a condition needs. Without it the condition cannot match. */
export function isIdentified (subject: Subject, flag: FlagDefinition, aggregation: number | null): boolean {
  if (aggregation !== null) return Boolean(subject.groupKeys[aggregation])
  return flag.bucketing_identifier !== 'device_id' || Boolean(subject.deviceId)
}

/** SDKs divide by 0xfffffffffffffff (15 digits), which as a double is 2^60. */
const SCALE = 2 ** 60

/**
 * The rollout hash: maps an identifier to a number from 0 to 1 for one flag. Every SDK computes the same number;
 * changing this function moves users between variants.
 *
 * @param key         Key of the flag.
 * @param identifier  Distinct id, group key or device id. An empty one gives 0, which is in every rollout.
 * @param salt        Empty for rollouts, `variant` for the choice of a variant.
 */
export function hashIdentifier (key: string, identifier: string, salt: '' | 'variant'): number {
  return compileHash(key)(identifier, salt)
}

/** `hashIdentifier` for one flag: its key is laid out once. */
export function compileHash (key: string): (identifier: string, salt: '' | 'variant') => number {
  const prefix = `${key}.`
  return (identifier, salt) => identifier === '' ? 0 : hashText(prefix, identifier, salt)
}

/** The hash for holdouts: the same for every flag, so that all of them exclude the same identifiers. */
export function hashForHoldout (identifier: string): number {
  return hashText('holdout-', identifier, '')
}

/** The hash of three texts, one after the other. They are not joined: that costs as much as a third of the hash. */
function hashText (prefix: string, identifier: string, salt: string): number {
  const bits = writeBlock(prefix, identifier, salt)
    ? sha1TopBits()
    : Number.parseInt(hash('sha1', prefix + identifier + salt, 'hex').slice(0, 15), 16)
  return bits / SCALE
}

/** A text of this length still fits one block of 64 bytes with its padding. */
const MAX_SHORT_TEXT = 55

/** The message schedule, reused by every call: the functions never yield in between. */
const schedule = new Int32Array(80)

/**
 * The first 15 hex digits of the SHA-1 of the block in `schedule`, as a number.
 *
 * A request evaluates up to hundreds of flags and each costs a hash of some 30 characters. The call into the
 * platform's SHA-1 costs more than the hash itself. Each word of the schedule is made in the round that needs it: the
 * processor does both at a time, which takes two thirds of the time.
 */
function sha1TopBits (): number {
  const w = schedule
  let a = 0x67452301
  let b = 0xefcdab89 | 0
  let c = 0x98badcfe | 0
  let d = 0x10325476
  let e = 0xc3d2e1f0 | 0
  let t = 0
  for (; t < 16; t++) {
    const next = ((a << 5 | a >>> 27) + (d ^ (b & (c ^ d))) + e + 0x5a827999 + w[t]!) | 0
    e = d; d = c; c = b << 30 | b >>> 2; b = a; a = next
  }
  for (; t < 80; t++) {
    const x = w[t - 3]! ^ w[t - 8]! ^ w[t - 14]! ^ w[t - 16]!
    const word = w[t] = x << 1 | x >>> 31
    const mixed = t < 20
      ? (d ^ (b & (c ^ d))) + 0x5a827999
      : t < 40
        ? (b ^ c ^ d) + 0x6ed9eba1
        : t < 60 ? ((b & c) | (d & (b | c))) - 0x70e44324 : (b ^ c ^ d) - 0x359d3e2a
    const next = ((a << 5 | a >>> 27) + mixed + e + word) | 0
    e = d; d = c; c = b << 30 | b >>> 2; b = a; a = next
  }
  const first = (0x67452301 + a) >>> 0
  const second = ((0xefcdab89 | 0) + b) >>> 0
  // 32 bits and the upper 28 of the next 32; one rounding to a double, as a conversion from a 64-bit integer has.
  return first * 0x10000000 + (second >>> 4)
}

/** Lays texts and their padding into the first 16 words, big-endian; false when they are too long or not ASCII. */
function writeBlock (prefix: string, identifier: string, salt: string): boolean {
  const end = prefix.length + identifier.length
  const length = end + salt.length
  if (length > MAX_SHORT_TEXT) return false
  for (let t = 0; t < 15; t++) schedule[t] = 0
  const seen = writeText(prefix, 0) | writeText(identifier, prefix.length) | writeText(salt, end)
  schedule[length >> 2]! |= 0x80 << (24 - ((length & 3) << 3))
  schedule[15] = length << 3
  return seen <= 0x7f
}

/** @returns all bits of its characters. */
function writeText (text: string, from: number): number {
  let seen = 0
  for (let i = 0, at = from; i < text.length; i++, at++) {
    const code = text.charCodeAt(i)
    seen |= code
    schedule[at >> 2]! |= code << (24 - ((at & 3) << 3))
  }
  return seen
}
