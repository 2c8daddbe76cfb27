import { keepDigits } from './exact-number.ts'
import { bodyError } from './http-body-error.ts'

/**
 * Parses JSON text; `NaN` and `Infinity`, which some languages write, count as null.
 *
 * @param keepsDigits  Whole numbers that a double cannot hold become an `ExactNumber`. Ten times slower: ask
 *   `hasLongNumber` first.
 * @throws {HttpError} 400 `invalid_json`.
 */
export function parseJson (text: string, keepsDigits = false): unknown {
  try {
    return keepsDigits ? parseExactly(text) : JSON.parse(text) as unknown
  } catch (error) {
    if (/NaN|Infinity/.test(text)) {
      try {
        return JSON.parse(replaceNonNumbers(text)) as unknown
      } catch {
        // The first error stands: it describes what the client sent.
      }
    }
    throw bodyError('invalid_json', 'The body is not valid JSON.', error)
  }
}

function parseExactly (text: string): unknown {
  try {
    return JSON.parse(text, keepDigits as Parameters<typeof JSON.parse>[1]) as unknown
  } catch (error) {
    // Too deep for the reviver, which the parser itself is not.
    if (error instanceof RangeError) return JSON.parse(text) as unknown
    throw error
  }
}

/** Strings are matched first, so that their content is never changed. */
const STRING_OR_NON_NUMBER = /"(?:[^"\\]|\\.)*"|-?Infinity|NaN/gs

function replaceNonNumbers (text: string): string {
  return text.replace(STRING_OR_NON_NUMBER, (match) => match.startsWith('"') ? match : 'null')
}
