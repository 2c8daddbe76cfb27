/** What the screen of schemas asks of the API. */
import { request } from '../api-client.ts'
import { createDefinitionRequests } from '../drafts/definition-requests.ts'
import { projectId } from '../router.ts'
import type { EventSchema, InferredSchema, Prediction, SchemaCounts, SchemaVersion } from './event-schemas.ts'

export const REQUESTS = createDefinitionRequests<EventSchema, SchemaVersion, SchemaCounts, Prediction>('event_schemas', ({ schema }) => schema)

/** Makes a draft of stored events. */
export async function inferDraft (
  fields: { event: string, days: number, include_sdk: boolean }
): Promise<InferredSchema> {
  return await request<InferredSchema>(`/api/projects/${projectId.value}/event_schemas/infer/`, { method: 'POST', body: fields })
}
