/** What the screen of schemas asks of the API. */
import { createDefinitionRequests } from '../drafts/definition-requests.ts'
import type { EventSchema, Prediction, SchemaCounts, SchemaVersion } from './event-schemas.ts'

export const REQUESTS = createDefinitionRequests<EventSchema, SchemaVersion, SchemaCounts, Prediction>('event_schemas', ({ schema }) => schema)
