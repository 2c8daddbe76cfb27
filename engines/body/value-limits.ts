/**
 * How many values a body may have: elements of lists, fields of objects, and lists and objects themselves, so that
 * levels and names are bounded with them. Each costs 0.1 to 3 us to parse and store, and 93 KB of gzip may stand for 48
 * million. They are counted in the bytes, before anything is made of them.
 */

/**
 * In one event. 25 times the properties that are described of one; a megabyte of numbers of three digits has as many.
 */
export const MAX_EVENT_VALUES = 250_000

/** Of an event as it was sent: what JetStream stores as one message. */
const MAX_EVENT_BYTES = 33_554_432

/** Whether an event is too much to be parsed: half a dozen texts as long as it is are made of it. */
export function isTooMuch (values: number, bytes: number): boolean {
  return values > MAX_EVENT_VALUES || bytes > MAX_EVENT_BYTES
}

/** Limits of a whole text. */
export interface ValueLimits {
  values: number
  /** Of its long array. */
  elements: number
  /** Beside that array. */
  fields: number
}

/** For what Millrace wrote itself. */
export const UNLIMITED: ValueLimits = { values: Infinity, elements: Infinity, fields: Infinity }

/** More events than 20 MB can hold: the shortest that is stored has 31 bytes. */
const MAX_EVENTS = 1_000_000

/** Beside the events, or of the only one, which has a dozen. */
const MAX_FIELDS = 10_000

/** What an event loop parses: 30 ms at most. A megabyte of SDKs' events has up to 40,000, at 25 bytes each. */
export const MAX_SMALL_VALUES = 32_768

/**
 * Of a body by its bytes on the wire: as many as 20 MB have without compression, at 10 bytes each (25 in events of
 * SDKs, 11 in the smallest), and 4 for each byte that came (0.5 in compressed events of SDKs, 3 where 500 properties
 * are always the same).
 */
export function limitsOfBody (wireBytes: number): ValueLimits {
  return { values: 2_000_000 + 4 * wireBytes, elements: MAX_EVENTS, fields: MAX_FIELDS }
}

/** What begins a value or follows one: `[`, `{` and `,`. */
const BEGINS_VALUE = new Uint8Array(256)
for (const character of '[{,') BEGINS_VALUE[character.charCodeAt(0)] = 1

/** Average sampling interval, bytes. */
const STEP = 128.5

/**
 * Whether JSON text seems to have more values than the event loop should parse. Characters within texts count as well.
 * Looks at some bytes, chosen at random so that no pattern escapes: 0.02 ms a megabyte, and 6 % off at the limit.
 */
export function isDense (json: Uint8Array): boolean {
  if (json.length <= MAX_SMALL_VALUES) return false
  let random = Math.floor(Math.random() * 0x1_0000_0000)
  let found = 0
  for (let at = 0; at < json.length; at += 1 + (random >>> 24)) {
    random = Math.imul(random, 1_664_525) + 1_013_904_223
    if (BEGINS_VALUE[json[at] ?? 0] === 1) found++
  }
  return found * STEP > MAX_SMALL_VALUES
}
