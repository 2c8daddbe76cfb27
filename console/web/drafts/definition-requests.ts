import { type ErrorBody, openStream, type Page, readLines, request, toApiError } from '../api-client.ts'
import { projectId } from '../router.ts'

/** What rules and event schemas have in common. */
export interface Definition {
  id: number
  description: string
  version: number
  first_version: number
  active_version: number | null
  updated_at: string
}

/** A version as the API answers it. */
export interface DefinitionVersion {
  version: number
  created_by: { email: string } | null
  created_at: string
}

/** Which events are asked for. */
export interface AskedEvents {
  days: number
  limit: number
}

/** How the check is followed. */
export interface CheckFollower {
  /** Gets the events that were checked, and those that there are to check. */
  onProgress: (checked: number, total: number) => void
  /** Its firing ends the check, in ClickHouse too. */
  signal: AbortSignal
}

/** What the screen of a kind asks of the API. */
export interface DefinitionRequests<D, V, Counts, Prediction> {
  list: (query: { search?: string, limit: number, offset?: number }, signal: AbortSignal) => Promise<Page<D>>
  /** Of the last days, by id of the definition; those that nothing is counted of are missing. */
  counts: (days: number, signal: AbortSignal) => Promise<ReadonlyMap<number, Counts>>
  find: (id: string, signal: AbortSignal) => Promise<D>
  /** The newest hundred versions, newest first. */
  versions: (id: string, signal: AbortSignal) => Promise<readonly V[]>
  /** @throws {ApiError} naming the field that is refused. */
  create: (fields: object) => Promise<D>
  /**
   * Other content makes a version.
   *
   * @throws {ApiError} naming the field that is refused; `conflict`: there is a newer version than `changes.version`.
   */
  change: (id: number, changes: object) => Promise<D>
  remove: (id: number) => Promise<void>
  /**
   * Says what a draft would have done with stored events.
   *
   * @throws {ApiError} also when the check ended early.
   */
  check: (id: number, draft: AskedEvents & object, follower: CheckFollower) => Promise<Prediction>
}

/** @param idOf  The definition that counts are of. */
export function createDefinitionRequests<D, V, Counts, Prediction extends { events: number }> (
  resource: 'rules' | 'event_schemas', idOf: (counts: Counts) => number
): DefinitionRequests<D, V, Counts, Prediction> {
  const base = (): string => `/api/projects/${projectId.value}/${resource}/`
  const one = (id: string | number): string => `${base()}${encodeURIComponent(id)}/`
  return {
    list: async (query, signal) => await request<Page<D>>(base(), { query, signal }),
    counts: async (days, signal) => {
      const { results } = await request<{ results: Counts[] }>(`${base()}counts/`, { query: { days }, signal })
      return new Map(results.map((counts) => [idOf(counts), counts]))
    },
    find: async (id, signal) => await request<D>(one(id), { signal }),
    versions: async (id, signal) =>
      (await request<Page<V>>(`${one(id)}versions/`, { query: { limit: 100 }, signal })).results,
    create: async (fields) => await request<D>(base(), { method: 'POST', body: fields }),
    change: async (id, changes) => await request<D>(one(id), { method: 'PATCH', body: changes }),
    remove: async (id) => { await request(one(id), { method: 'DELETE' }) },
    check: async (id, draft, follower) => await followCheck<Prediction>(`${one(id)}check/`, draft, follower)
  }
}

/**
 * Asks the API for a check, and resolves with what it found.
 *
 * @throws {ApiError} also when the check ended early.
 */
async function followCheck<T extends { events: number }> (
  path: string, body: AskedEvents, { onProgress, signal }: CheckFollower
): Promise<T> {
  const stream = await openStream(path, signal, { method: 'POST', body, accept: 'application/x-ndjson' })
  for await (const lines of readLines(stream)) {
    for (const line of lines) {
      const step = JSON.parse(line) as { checked: number, total: number } | T | ErrorBody
      if ('checked' in step) onProgress(step.checked, step.total)
      else if ('events' in step) return step
      else throw toApiError(0, step)
    }
  }
  throw toApiError(0, { code: 'broken_off', detail: 'The check ended before it was done. Try again.' })
}
