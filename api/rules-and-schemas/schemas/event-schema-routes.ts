import type { FastifyInstance } from 'fastify'
import { describeClickHouseError } from '../../http/describe-clickhouse-error.ts'
import { routesOf } from '../../http/routes.ts'
import { type DefinitionDeps, registerDefinitionRoutes } from '../definition-routes.ts'
import { checkStoredEvents } from './check-stored-events.ts'
import {
  checkBodySchema, compileDraft, EVENT_SCHEMAS, inferBodySchema, inferredSchema,
  predictionSchema, SCHEMA_CHECK_LIMIT, SCHEMA_FIELDS, schemaCountsSchema
} from './event-schema.ts'
import { inferSchema } from './infer-schema.ts'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { SCHEMA_SEPARATOR } from '../../../schema/wire/ingestion-warnings.ts'
import { beginOf, countByDefinition, type CountedDefinition, type CountsQuery } from '../definition-counts.ts'
import type { Value } from '../../http/json-schema.ts'

/**
 * A schema has 64 KiB at most, six times as much when each character is escaped. Only reading a larger body delays
 * others by more than 50 ms, on a slow machine (`test/security/hostile-schemas.system.test.ts`).
 */
const MAX_BODY_BYTES = 524_288

export async function eventSchemaRoutes (app: FastifyInstance, deps: DefinitionDeps): Promise<void> {
  registerDefinitionRoutes(app, deps, {
    kind: EVENT_SCHEMAS,
    fields: SCHEMA_FIELDS,
    limits: { bodyLimit: MAX_BODY_BYTES },
    titles: {
      listed: 'By name of the event.',
      counts: 'Count events checked by schemas',
      counted: 'How many events ingest checked by each schema, and how many of them did not meet it.',
      updated: 'Another schema',
      checked: 'Reports what the schema would have done with stored events: how many would have failed, why, and from which SDK.'
    },
    countsSchema: schemaCountsSchema,
    readCounts: readSchemaCounts,
    check: {
      bodySchema: checkBodySchema,
      answerSchema: predictionSchema,
      limit: SCHEMA_CHECK_LIMIT,
      prepare: ({ event, schema }, draft) => {
        const compiled = compileDraft(draft.schema ?? schema)
        return async (clickhouse, query) => await checkStoredEvents(clickhouse, compiled, { ...query, event })
      }
    }
  })

  // It shows values of stored events.
  routesOf(app, { tag: EVENT_SCHEMAS.tag, object: 'event' }).post('/infer', {
    scope: 'event:read', summary: 'Infer a draft of an event schema from stored events', body: inferBodySchema, answer: inferredSchema,
    description: 'Names and types of properties, the required ones, and the values of those with few values. Stores nothing.'
  }, async ({ body: { event, days = 30, limit = 100_000, include_sdk: includeSdk = false } }, { projectId }) =>
    await inferSchema(deps.clickhouse, { projectId, event, days, limit, includeSdk, now: deps.now() })
      .catch((error: unknown) => { throw describeClickHouseError(error) }))
}

/** How many events of the last days ingest checked by a schema. */
export type SchemaCounts = Value<typeof schemaCountsSchema>['results'][number]

const REASONS = ['schema_not_met', 'schema_quarantined', 'schema_rejected'] as const

/**
 * Counts the events that ingest checked by schemas. Those that did not meet one were counted by ingest before it
 * answered; those that did are the stored events that say so. So an event that a client sent twice counts as often as
 * it failed, but once when it did not; one that was deleted later, only if it failed.
 *
 * @returns in the order of `schemas`; schemas with no checked events are omitted.
 */
async function readSchemaCounts (
  clickhouse: ClickHouse, query: CountsQuery, schemas: readonly (CountedDefinition & { event: string })[]
): Promise<SchemaCounts[]> {
  if (schemas.length === 0) return []
  const [met, failed] = await Promise.all([
    queryRows<{ event: string, version: number, count: number }>(clickhouse, `
      SELECT event, schema_version AS version, toUInt32(count()) AS count
      FROM events
      WHERE project_id = {project: UInt32} AND event IN {names: Array(String)} AND schema_version > 0
        AND received_at >= toDateTime({from: UInt32}, 'UTC')
      GROUP BY event, version`, { project: query.projectId, from: beginOf(query), names: schemas.map(({ event }) => event) }),
    countByDefinition(clickhouse, query, { separator: SCHEMA_SEPARATOR, reasons: REASONS, definitions: schemas })
  ])
  return schemas.map(({ id, event, first_version: first }) => {
    const of = (reason: typeof REASONS[number]): number =>
      failed.find((each) => each.id === id && each.reason === reason)?.count ?? 0
    const [kept, quarantined, rejected] = REASONS.map(of) as [number, number, number]
    const own = met.filter((row) => row.event === event && row.version >= first)
    const checked = own.reduce((sum, { count }) => sum + count, kept + quarantined + rejected)
    return { schema: id, checked, kept, quarantined, rejected }
  }).filter(({ checked }) => checked > 0)
}
