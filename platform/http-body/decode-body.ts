import { hasLongNumber } from './has-long-number.ts'
import { parseJson } from './parse-json.ts'
import { cleanStrings, mayNeedCleaning } from '../identity/stored-text.ts'
import { unwrapBody, type BodyHints } from './unwrap-body.ts'

/**
 * Turns the raw bytes of a body into the JSON value it carries, however the SDK wrapped it.
 *
 * Runs on the event loop and blocks it about 3 ms a megabyte: give it small bodies only.
 *
 * Whole numbers that a double cannot hold become an `ExactNumber`.
 *
 * @param maxBytes  Largest body after decompression.
 * @param cleansStrings  All strings and names become what is stored of them (`cleanText`). For who compares
 *   them with what is stored.
 * @throws {HttpError} 400 with a code that says what was wrong, 413 `body_too_large`.
 */
export function decodeBody (bytes: Buffer, hints: BodyHints, maxBytes: number, cleansStrings = false): unknown {
  const json = unwrapBody(bytes, hints, maxBytes)
  const value = parseJson(toText(json), hasLongNumber(json))
  return cleansStrings && mayNeedCleaning(json) ? cleanStrings(value) : value
}

/** Bytes that are not UTF-8 become U+FFFD; a byte order mark goes. */
function toText (bytes: Buffer): string {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return bytes.toString('utf8', hasMark ? 3 : 0)
}
