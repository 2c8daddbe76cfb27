import { parseExactly } from './exact-number.ts'
import { bodyError } from './http-body-error.ts'

/**
 * Parses JSON text; `NaN` and `Infinity`, which some languages write, count as null.
 *
 * @param keepsDigits  Whole numbers that a double cannot hold become an `ExactNumber`, whatever else the text holds.
 *   Ten times slower: ask `hasLongNumber` first.
 * @throws {HttpError} 400 `invalid_json`.
 */
export function parseJson (text: string, keepsDigits = false): unknown {
  const parse = keepsDigits ? parseExactly : JSON.parse as (text: string) => unknown
  try {
    return parse(text)
  } catch (error) {
    if (/NaN|Infinity/.test(text)) {
      try {
        return parse(replaceNonNumbers(text))
      } catch {
        // The first error stands: it describes what the client sent.
      }
    }
    throw bodyError('invalid_json', 'The body is not valid JSON.', error)
  }
}

/** Strings are matched first, so that their content is never changed. */
const STRING_OR_NON_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?Infinity|NaN/gs

function replaceNonNumbers (text: string): string {
  return text.replace(STRING_OR_NON_NUMBER, (match) => match.startsWith('"') ? match : 'null')
}
