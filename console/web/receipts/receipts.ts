import { request } from '../api-client.ts'
import { formatCount, formatCounted, formatTime } from '../format.ts'
import { projectId } from '../router.ts'
import { session } from '../session.ts'
import { isOfRequests, type RefusedRequests } from './warning-words.ts'

/** The answer of `GET /api/projects/<id>/events/<uuid>/receipt`; what is told depends on the fate. */
export interface Receipt {
  uuid: string
  fate: string
  stored: ({ event: string, distinct_id: string, timestamp: string } & Record<string, unknown>) | null
  duplicates: { count: number, last: Record<string, unknown>[] } | null
  dead_letter: ({ id: number, reason: string } & Record<string, unknown>) | null
  waiting: ({ messages_ahead: number } & Record<string, unknown>) | null
  dropped: ({ reason: string } & Record<string, unknown>) | null
  deleted: ({ why: string, was_stored: boolean | null } & Record<string, unknown>) | null
  may_be_in: { where: string, process: string | null, since: string | null }[] | null
  searched: { messages: number, of: number } | null
}

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export async function fetchReceipt (uuid: string, signal: AbortSignal): Promise<Receipt> {
  return await request<Receipt>(`/api/projects/${projectId.value}/events/${uuid.toLowerCase()}/receipt`, { signal })
}

/** The newest events of a distinct id, wherever they are. */
export async function fetchReceipts (distinctId: string, signal: AbortSignal): Promise<Receipt[]> {
  const { results } = await request<{ results: Receipt[] }>(`/api/projects/${projectId.value}/receipts`, {
    query: { distinct_id: distinctId, limit: 50 }, signal
  })
  return results
}

/** Requests of the last hours that were refused as a whole; those of no project only for keys of all projects. */
export async function fetchRefused (signal: AbortSignal, hours = 24): Promise<RefusedRequests[]> {
  const { results } = await request<{ results: RefusedRequests[] }>(`/api/projects/${projectId.value}/ingestion_warnings/summary/`, {
    query: { hours, unassigned: session.value?.all_projects === true ? true : undefined }, signal
  })
  return results.filter(({ reason }) => isOfRequests(reason))
}

/** Where an event is, as a sentence with what to do. */
export function explainReceipt (receipt: Receipt): string {
  const { fate, stored, duplicates, dead_letter: letter, waiting, dropped, deleted } = receipt
  switch (fate) {
    case 'stored': {
      const times = duplicates?.count ?? 0
      const again = times === 0 ? '' : ` It came ${formatCounted(times, 'more time')}, and was counted once.`
      return `It is stored: analysts find it.${stored === null ? '' : ` It happened at ${formatTime(stored.timestamp)} UTC.`}${again}`
    }
    case 'dead_letter': return `It could not be stored (${letter?.reason ?? 'no reason'}), and is kept as a dead letter: replay it when the cause is fixed.`
    case 'waiting': return `It waits in the stream${waiting === null ? '' : `, ${formatCounted(waiting.messages_ahead, 'message')} before it`}: nothing is lost. See Health if it waits long.`
    case 'dropped': return `It was answered with 200 and not stored: ${dropped?.reason ?? 'no reason'}. Fix what sends it; it cannot be replayed.`
    case 'deleted': return describeDeleted(deleted)
    default: return describeUnknown(receipt.may_be_in, receipt.searched)
  }
}

function describeDeleted (deleted: Receipt['deleted']): string {
  switch (deleted?.why) {
    case 'person': return 'It was deleted with its person.'
    case 'retention': return deleted.was_stored === true ? 'It was older than retention keeps.' : 'It is older than retention keeps: if it was ever stored, it is gone.'
    default: return 'It was stored, and is gone: deleted by hand, or dropped with its partition.'
  }
}

function describeUnknown (places: Receipt['may_be_in'], searched: Receipt['searched']): string {
  const rest = searched !== null && searched.messages < searched.of
    ? ` The stream was searched in part: ${formatCount(searched.messages)} of ${formatCounted(searched.of, 'message')}.`
    : ''
  if (places === null || places.length === 0) {
    return `Nothing is known of it: no process took it, or it was dropped longer ago than drops are remembered. Check the uuid, the project and the key.${rest}`
  }
  const names = places.map(({ where, process }) => `${WHERE[where] ?? where}${process === null ? '' : ` of ${process}`}`).join(', ')
  return `It is neither stored nor refused; it may be in ${names}.${rest}`
}

const WHERE: Record<string, string> = { spool: 'the spool', in_flight: 'the memory', stream: 'the stream' }

/** The parts of a receipt that its fate fills, flat, for a list of facts. */
export function listFacts (receipt: Receipt): { name: string, value: string }[] {
  const parts = [receipt.stored, receipt.dead_letter, receipt.waiting, receipt.dropped, receipt.deleted]
  return parts.flatMap((part) => part === null || part === undefined ? [] : Object.entries(part))
    .filter(([, value]) => value !== null && value !== '' && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => ({
      name: name.replaceAll('_', ' '),
      value: Array.isArray(value) ? value.join(', ') : typeof value === 'number' ? formatCount(value) : String(value)
    }))
}
