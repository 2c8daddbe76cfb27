import type { Status } from '../../../schema/api-types.ts'
import { explainDrop } from '../receipts/warning-words.ts'

/** Something that ingest did not take, for one reason. */
export interface NotTaken {
  what: 'events' | 'requests'
  /** A sentence with what to do. */
  why: string
  count: number
}

/** Why a request is refused, by the status of its answer; a request has any number of events. */
const REFUSED: Record<string, string> = {
  400: '400: the body cannot be read as events. The answer says what is wrong with it.',
  401: '401: the key is that of no project. Connect has the right one.',
  403: '403: the key may not send events.',
  413: '413: the body is too large. Send fewer or smaller events at once.',
  429: '429: too many events, for the quota of the project or the limit of this installation. See Usage.'
}

/** What was dropped and refused since ingest started, the most frequent first. */
export function describeNotTaken ({ dropped, refusedRequests }: Pick<Status['ingest'], 'dropped' | 'refusedRequests'>): NotTaken[] {
  const rows: NotTaken[] = [
    ...Object.entries(dropped).map(([reason, count]) => ({ what: 'events' as const, why: explainDrop(reason), count })),
    ...Object.entries(refusedRequests).map(([status, count]) => ({ what: 'requests' as const, why: REFUSED[status] ?? `Answered with ${status}.`, count }))
  ]
  return rows.sort((one, other) => other.count - one.count)
}

/** How many requests were refused since ingest started. */
export function countRefused ({ refusedRequests }: Pick<Status['ingest'], 'refusedRequests'>): number {
  return Object.values(refusedRequests).reduce((sum, count) => sum + count, 0)
}
