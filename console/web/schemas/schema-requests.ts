/** What the screen of schemas asks of the API. */
import { request, type Page } from '../api-client.ts'
import { type AskedEvents, type CheckFollower, followCheck } from '../drafts/stored-check.tsx'
import { projectId } from '../router.ts'
import type { EventSchema, InferredSchema, Prediction, SchemaCounts, SchemaVersion } from './event-schemas.ts'

const base = (): string => `/api/projects/${projectId.value}/event_schemas/`

export async function listSchemas (
  query: { search: string, limit: number, offset: number }, signal: AbortSignal
): Promise<Page<EventSchema>> {
  return await request<Page<EventSchema>>(base(), { query, signal })
}

/** What ingest counted in the last days, by id of the schema; those that no event was held against are missing. */
export async function fetchCounts (days: number, signal: AbortSignal): Promise<ReadonlyMap<number, SchemaCounts>> {
  const { results } = await request<{ results: SchemaCounts[] }>(`${base()}counts/`, { query: { days }, signal })
  return new Map(results.map((counts) => [counts.schema, counts]))
}

export async function fetchSchema (id: string, signal: AbortSignal): Promise<EventSchema> {
  return await request<EventSchema>(`${base()}${encodeURIComponent(id)}/`, { signal })
}

/** Reads the newest hundred versions, newest first. */
export async function fetchVersions (id: string, signal: AbortSignal): Promise<Page<SchemaVersion>> {
  return await request<Page<SchemaVersion>>(`${base()}${encodeURIComponent(id)}/versions/`, { query: { limit: 100 }, signal })
}

/** @throws {ApiError} naming the field of the draft that is refused. */
export async function createSchema (fields: Pick<EventSchema, 'event' | 'schema'>): Promise<EventSchema> {
  return await request<EventSchema>(base(), { method: 'POST', body: fields })
}

/** What of a schema can be changed; another `schema` makes a version. `version`: the one that the change is made of. */
export type SchemaChanges = Partial<Pick<EventSchema, 'schema' | 'description' | 'owner' | 'mode' | 'active_version' | 'version'>>

/** @throws {ApiError} naming the field that is refused; `conflict` when there is a newer version. */
export async function changeSchema (id: number, changes: SchemaChanges): Promise<EventSchema> {
  return await request<EventSchema>(`${base()}${id}/`, { method: 'PATCH', body: changes })
}

export async function deleteSchema (id: number): Promise<void> {
  await request(`${base()}${id}/`, { method: 'DELETE' })
}

/** Makes a draft of stored events. */
export async function inferDraft (
  fields: { event: string, days: number, include_sdk: boolean }
): Promise<InferredSchema> {
  return await request<InferredSchema>(`${base()}infer/`, { method: 'POST', body: fields })
}

/**
 * Says what a draft would have done with stored events.
 *
 * @throws {ApiError} also when the check ended early.
 */
export async function checkDraft (
  id: number, body: AskedEvents & { schema: unknown }, follower: CheckFollower
): Promise<Prediction> {
  return await followCheck<Prediction>(`${base()}${id}/check/`, body, follower)
}
