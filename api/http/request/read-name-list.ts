import { HttpError } from '../../../platform/errors.ts'

/**
 * Reads a list of names from a query parameter: a JSON array of strings, or names separated by commas. Names with a
 * comma need the first form.
 *
 * @returns undefined when the parameter is absent or empty.
 * @throws {HttpError} 400 naming the parameter, when it begins like a JSON array and is none.
 */
export function readNameList (parameter: string, text: string | undefined): string[] | undefined {
  if (text === undefined || text.trim() === '') return undefined
  if (!text.trimStart().startsWith('[')) return text.split(',').map((name) => name.trim()).filter((name) => name !== '')
  const names = parseJson(text)
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && !name.includes('\0') && name.isWellFormed())) {
    throw new HttpError(400, 'validation_error', 'invalid_input', `${parameter} must be a JSON array of names.`, { attr: parameter })
  }
  return names as string[]
}

function parseJson (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The caller says what is wrong with it.
    return undefined
  }
}
