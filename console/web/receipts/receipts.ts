import { request } from '../api-client.ts'
import { projectId } from '../router.ts'
import { session } from '../session.ts'
import type { Receipt } from './explain-receipt.ts'
import { isOfRequests, type RefusedRequests } from './warning-words.ts'

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
