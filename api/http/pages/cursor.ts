import { HttpError } from '../../../platform/errors.ts'

/** Query parameter of lists that links carry; clients pass it on and do not make it up. */
export const cursorQueryProperties = {
  after: { type: 'string', maxLength: 4000, description: 'Where the previous page ended; only from a `next` link.' }
} as const

/**
 * The place of an item in a list: the values it is sorted by, as text, with the name of the order.
 *
 * Offsets are part of the contract, but shift when items are added or deleted; the place of an item does not.
 */
export function encodeCursor (order: string, values: readonly string[]): string {
  return Buffer.from(JSON.stringify([order, ...values])).toString('base64url')
}

/**
 * Reads the `after` of a request.
 *
 * @param order  The order of this list; a cursor of another one is refused, because it would skip items.
 * @param count  How many values the order has.
 * @returns undefined when the request has none.
 * @throws {HttpError} 400 for a text that `encodeCursor` did not make.
 */
export function decodeCursor (after: string | undefined, order: string, count: number): string[] | undefined {
  if (after === undefined) return undefined
  const values = readArray(after)
  const valid = values !== undefined && values.length === count + 1 && values[0] === order &&
    values.every((value) => typeof value === 'string' && !value.includes('\0'))
  if (!valid) {
    throw new HttpError(400, 'validation_error', 'invalid_input', 'after must come from the next link of this list.', { attr: 'after' })
  }
  return values.slice(1) as string[]
}

function readArray (text: string): unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return Array.isArray(value) ? value : undefined
  } catch {
    // Not JSON, so not ours: the caller says so.
    return undefined
  }
}
