import { request } from '../api-client.ts'
import { projectId } from '../router.ts'
import { session } from '../session.ts'
import { isOfRequests, type RefusedRequests } from './warning-words.ts'

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Requests of the last hours that were refused as a whole; those of no project only for keys of all projects. */
export async function fetchRefused (signal: AbortSignal, hours = 24): Promise<RefusedRequests[]> {
  const { results } = await request<{ results: RefusedRequests[] }>(`/api/projects/${projectId.value}/ingestion_warnings/summary/`, {
    query: { hours, unassigned: session.value?.all_projects === true || undefined }, signal
  })
  return results.filter(({ reason }) => isOfRequests(reason))
}
