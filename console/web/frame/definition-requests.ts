import { type ErrorBody, openStream, type Page, readLines, request, toApiError } from '../api-client.ts'
import type { Answer, Schema } from '../../api-types.ts'
import { projectId } from '../router.ts'

export type Definition = Pick<Schema<'EventRule'>, 'id' | 'description' | 'version' | 'first_version' | 'active_version' | 'updated_at'> & { mode?: string }

export type DefinitionVersion = Pick<
  Answer<'/api/projects/{project_id}/rules/{id}/versions'>['results'][number], 'version' | 'created_by' | 'created_at'
>

export interface AskedEvents { days: number, limit: number }

export interface CheckFollower {
  /** Gets the events that were checked, and those that there are to check. */
  onProgress: (checked: number, total: number) => void
  /** Its firing ends the check, in ClickHouse too. */
  signal: AbortSignal
}

export type DefinitionRequests<D, V, Counts, Prediction extends Checked> =
  ReturnType<typeof createDefinitionRequests<D, V, Counts, Prediction>>

export interface Checked { events: number }

/** @param idOf  The definition that counts are of. */
export function createDefinitionRequests<D, V, Counts, Prediction extends Checked> (
  resource: 'rules' | 'event_schemas', idOf: (counts: Counts) => number
) {
  const path = (): string => `/api/projects/${projectId.value}/${resource}/`
  const one = (id: string | number): string => `${path()}${encodeURIComponent(id)}/`
  return {
    path,
    /** Of the last days, by id of the definition; those that nothing is counted of are missing. */
    counts: async (days: number, signal: AbortSignal) => {
      const { results } = await request<{ results: Counts[] }>(`${path()}counts/`, { query: { days }, signal })
      return new Map(results.map((counts) => [idOf(counts), counts]))
    },
    find: async (id: string, signal: AbortSignal) => await request<D>(one(id), { signal }),
    /** The newest hundred versions, newest first. */
    versions: async (id: string, signal: AbortSignal): Promise<readonly V[]> =>
      (await request<Page<V>>(`${one(id)}versions/`, { query: { limit: 100 }, signal })).results,
    /** @throws {ApiError} naming the field that is refused. */
    create: async (fields: object) => await request<D>(path(), { method: 'POST', body: fields }),
    /**
     * Other content makes a version.
     *
     * @throws {ApiError} naming the field that is refused; `conflict`: there is a newer version than `changes.version`.
     */
    change: async (id: number, changes: object) => await request<D>(one(id), { method: 'PATCH', body: changes }),
    remove: async (id: number) => await request(one(id), { method: 'DELETE' }),
    /** What a draft would have done with stored events; `followCheck` says how it fails. */
    check: async (id: number, draft: AskedEvents & object, follower: CheckFollower) =>
      await followCheck<Prediction>(`${one(id)}check/`, draft, follower)
  }
}

/** Asks the API for a check, and resolves with what it found. @throws {ApiError} also when the check ended early. */
async function followCheck<T extends Checked> (
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
  throw toApiError(0, { code: 'broken_off', detail: 'The check was interrupted. Try again.' })
}
