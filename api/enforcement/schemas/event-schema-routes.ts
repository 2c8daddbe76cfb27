import type { FastifyInstance } from 'fastify'
import { describeClickHouseError } from '../../http/describe-clickhouse-error.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { type DefinitionDeps, registerDefinitionRoutes } from '../definition-routes.ts'
import { checkStoredEvents } from './check-stored-events.ts'
import {
  checkBodySchema, compileDraft, EVENT_SCHEMAS, type InferFields, inferBodySchema, inferredSchema, predictionSchema,
  SCHEMA_CHECK_LIMIT, SCHEMA_FIELDS, schemaCountsSchema
} from './event-schema.ts'
import { inferSchema } from './infer-schema.ts'
import { readSchemaCounts } from './read-schema-counts.ts'

/**
 * A schema has 64 KiB at most, six times as much when each character is escaped. Only a larger body takes the API so
 * long to read that others wait for more than 50 ms, on a slow machine (`test/security/hostile-schemas.test.ts`).
 */
const MAX_BODY_BYTES = 524_288

export async function eventSchemaRoutes (app: FastifyInstance, deps: DefinitionDeps): Promise<void> {
  registerDefinitionRoutes(app, deps, {
    kind: EVENT_SCHEMAS,
    fields: SCHEMA_FIELDS,
    limits: { bodyLimit: MAX_BODY_BYTES },
    titles: {
      list: 'List event schemas',
      listed: 'By name of the event.',
      created: 'Not enforced before a version is active.',
      counts: 'Count events held against schemas',
      counted: 'How many events ingest checked by each schema, and how many of them did not meet it.',
      versions: 'List the versions of an event schema',
      updated: 'Another schema',
      checked: 'Says what the schema would have done with events that are stored: how many would not have met it, why, and from which SDK.',
      deleted: 'It is no longer enforced. Another one of the same event has a history of its own, whose numbers go on.'
    },
    countsSchema: schemaCountsSchema,
    readCounts: readSchemaCounts,
    check: {
      bodySchema: checkBodySchema,
      answerSchema: predictionSchema,
      limit: SCHEMA_CHECK_LIMIT,
      prepare: ({ event, schema }, draft) => {
        const compiled = compileDraft(draft.schema ?? schema)
        return async (clickhouse, query) => {
          const { libs, ...prediction } = await checkStoredEvents(clickhouse, compiled, { ...query, event })
          return { ...prediction, libs: libs.map(({ libVersion, ...lib }) => ({ ...lib, lib_version: libVersion })) }
        }
      }
    }
  })

  app.post<{ Body: InferFields }>('/infer', {
    // It shows values of stored events.
    config: { scope: 'event:read' },
    schema: {
      tags: [EVENT_SCHEMAS.tag], summary: 'Make a draft of an event schema from stored events', body: inferBodySchema,
      response: { 200: inferredSchema },
      description: 'Names, types, which properties all events have, and the values of those that have few. Stores nothing.'
    }
  }, async (request) => {
    const { event, days = 30, limit = 100_000, include_sdk: includeSdk = false } = request.body
    const query = { projectId: accessOf(request).projectId, event, days, limit, includeSdk, now: deps.now() }
    return await inferSchema(deps.clickhouse, query)
      .catch((error: unknown) => { throw describeClickHouseError(error) })
  })
}
