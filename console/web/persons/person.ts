import type { Answer, Schema } from '../../api-types.ts'
import { formatZoned } from '../format.ts'

/** A person as the management API shows it; at most 100 of its distinct ids. */
export type Person = Schema<'Person'>

export type PersonHistory = Schema<'PersonHistory'>

export type PersonDeletion = Answer<'/api/projects/{project_id}/persons/deletions'>['results'][number]

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

/** How far a deletion has come, in words. */
export function describeDeletion ({ with_events: withEvents, done_at: done, swept_at: swept }: PersonDeletion): string {
  const what = withEvents ? 'the person and its events' : 'the person'
  if (done === null) return `Being deleted from ClickHouse: ${what}. The person is deleted from Postgres, and flags no longer use it.`
  if (swept === null) return `A count found nothing left of ${what}. Events in transit at the time of the request are deleted when they arrive.`
  return `Deleted: ${what}. A count found nothing left, including events in transit at the time of the request.`
}
