import type { Schema } from '../../api-types.ts'
import { formatZoned } from '../format.ts'

/** A person as the management API shows it; at most 100 of its distinct ids. */
export type Person = Schema<'Person'>

export type PersonHistory = Schema<'PersonHistory'>

/**
 * How a distinct id came to the person, and when.
 *
 * @param created  Since when the person is known, as ISO 8601: by its first id, which is written later when events of
 *                 the past are sent.
 */
export function describeId ({ is_first: isFirst, since }: PersonHistory['distinct_ids'][number], created: string): string {
  const at = isFirst && since !== null && Date.parse(created) < Date.parse(since) ? created : since
  const when = at === null ? '' : ` ${formatZoned(at)}`
  return isFirst ? `the first, since${when === '' ? ' the beginning' : when}` : `joined${when}`
}
