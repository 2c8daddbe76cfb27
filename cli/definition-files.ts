/** Files with an event schema or a rule, and what is wrong with what they say. */
import { readFile } from 'node:fs/promises'
import { HttpError, MillraceError } from '../engines/errors.ts'

/**
 * Reads the JSON of a file, also one that begins with the mark of its encoding, as editors of Windows write it.
 *
 * @param what  What the file should be: `a JSON Schema`.
 * @throws {MillraceError} with this code.
 */
export async function readDefinition (file: string, { what, code }: { what: string, code: string }): Promise<unknown> {
  try {
    const text = await readFile(file, 'utf8')
    return JSON.parse(text.replace(/^\uFEFF/, '')) as unknown
  } catch (cause) {
    throw new MillraceError(code, `cannot read ${what} from ${file}: ${(cause as Error).message}`, { cause })
  }
}

/**
 * Does something with a definition; the error of one that is refused names the place that is wrong.
 *
 * @throws {MillraceError} with this code.
 */
export async function namingPlace<T> (code: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof HttpError) || typeof error.attr !== 'string') throw error
    throw new MillraceError(code, `${error.attr.replaceAll('__', '.')}: ${error.message}`, { cause: error })
  }
}
