/**
 * Which numbers can be stored. JSON text may hold a number that no double does, as `1e400`: the parser makes it
 * Infinity, and whatever writes it again writes `null`.
 *
 * - In what SDKs send it is stored as `null`: an event must not be lost for one number.
 * - In what people write (event schemas, rules) it is refused with the place: `null` would be another rule than theirs.
 *
 * Whole numbers beyond 2^53 are the nearest double, as everywhere (docs/change/rules-and-schemas.md).
 */
import { isExactNumber } from './parse-json.ts'

/** A value, and how it was reached. */
interface Found {
  value: unknown
  name: string
  parent?: Found
}

/**
 * Where a parsed JSON value has a number that would be stored as `null`, as a list of names; null: nowhere.
 *
 * Works off a list instead of calling itself, because a value may be nested deeper than the stack.
 */
export function findUnstorableNumber (value: unknown): string[] | null {
  const todo: Found[] = [{ value, name: '' }]
  for (let found = todo.pop(); found !== undefined; found = todo.pop()) {
    const { value: here } = found
    const number = isExactNumber(here) ? Number(here.rawJSON) : here
    if (typeof number === 'number' && !Number.isFinite(number)) return pathOf(found)
    if (typeof number !== 'object' || number === null) continue
    // From the end, because the list is worked off from its end: the first place is named.
    for (const [name, inner] of Object.entries(number).reverse()) todo.push({ value: inner, name, parent: found })
  }
  return null
}

function pathOf (found: Found): string[] {
  const path: string[] = []
  for (let at = found; at.parent !== undefined; at = at.parent) path.push(at.name)
  return path.reverse()
}

/** Message for users. */
export const UNSTORABLE_NUMBER = 'This number is too large: it would be stored as null.'
