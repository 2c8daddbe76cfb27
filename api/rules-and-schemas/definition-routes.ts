import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { answerInTime } from '../http/answer-errors.ts'
import { schemaOf } from '../http/json-schema.ts'
import { idParams } from '../http/request-values.ts'
import { type Routes, routesOf } from '../http/routes.ts'
import { answerLookBack, LINES_DESCRIPTION, type LookBackOptions } from './look-back.ts'
import { createDefinition, deleteDefinition, updateDefinition } from './change-definitions.ts'
import type { CountedDefinition, CountsQuery } from './definition-counts.ts'
import type { DefinitionFields, DefinitionKind, describeFields } from './definition-kind.ts'
import type { StoredEventsQuery } from './read-stored-events.ts'
import {
  countsQuery, definitionsQuery, findDefinition, listCounted, listDefinitions, listVersions, versionsQuery
} from './versioned-definitions.ts'

export interface DefinitionDeps {
  sql: Sql
  clickhouse: ClickHouse
  publicUrl: string
  now: () => number
}

/** What the routes of a kind do in their own way, and say in the OpenAPI document. */
export interface DefinitionApi<Definition, Version, Counted extends CountedDefinition> {
  kind: DefinitionKind<Definition, Version, any>
  fields: ReturnType<typeof describeFields>
  /** Of the routes whose bodies hold a content. */
  limits: { bodyLimit?: number }
  titles: Record<'listed' | 'counts' | 'counted' | 'updated' | 'checked', string>
  countsSchema: object
  readCounts: (clickhouse: ClickHouse, query: CountsQuery, definitions: readonly Counted[]) => Promise<object[]>
  check: {
    bodySchema: object
    answerSchema: object
    limit: number
    /** Compiles the draft of a request, or the newest version; what it returns checks stored events. */
    prepare: (
      stored: Definition, draft: Readonly<Record<string, unknown>>
    ) => (clickhouse: ClickHouse, query: StoredEventsQuery & LookBackOptions) => Promise<object>
  }
}

type AnyApi = DefinitionApi<any, any, any>

/** Management of the rules or event schemas of a project. Ingest follows a change within a second. */
export function registerDefinitionRoutes<
  Definition extends object, Version extends { version: number }, Counted extends CountedDefinition
> (
  app: FastifyInstance, deps: DefinitionDeps, api: DefinitionApi<Definition, Version, Counted>
): void {
  app.addSchema(api.fields.definition)
  const routes = routesOf(app, { tag: api.kind.tag, object: 'event_definition', publicUrl: deps.publicUrl })
  registerReading(routes, deps, api)
  registerChanges(routes, deps, api)
  registerCounts(routes, deps, api)
  registerCheck(routes, deps, api)
}

function registerReading (routes: Routes, { sql }: DefinitionDeps, { kind, fields, titles }: AnyApi): void {
  const one = { $ref: `${fields.$id}#` }

  routes.list('/', {
    summary: `List ${kind.tag}`, description: titles.listed, query: definitionsQuery(kind.noun), item: one
  }, async ({ query }, access) => await listDefinitions(sql, kind, query, access))

  routes.get('/:id', {
    summary: `Retrieve ${kind.one}`, params: idParams, answer: one
  }, async ({ params: { id } }, { projectId }) => await findDefinition(sql, kind, { projectId, id }))

  routes.list('/:id/versions', {
    summary: `List the versions of ${kind.one}`, description: 'Newest first.', params: idParams, query: versionsQuery, item: fields.version
  }, async ({ params: { id }, query }, { projectId }) => await listVersions(sql, kind, { ...query, projectId, id }))
}

function registerChanges (routes: Routes, { sql }: DefinitionDeps, { kind, fields, titles, limits }: AnyApi): void {
  const one = { $ref: `${fields.$id}#` }

  routes.create('/', {
    ...limits, summary: `Create ${kind.one}`, description: 'Not enforced until a version is active.', body: schemaOf<DefinitionFields>(fields.create), answer: one
  }, async ({ body }, { projectId, userId }) => await createDefinition(sql, kind, { projectId, userId }, body))

  routes.patch('/:id', {
    ...limits, summary: `Update ${kind.one}`, params: idParams, body: schemaOf<DefinitionFields>(fields.change), answer: one,
    description: `${titles.updated} creates a version; active_version selects the enforced one. With \`version\`, 409 ` +
      '`conflict` if there is a newer one.'
  }, async ({ params: { id }, body }, { projectId, userId }) =>
    await updateDefinition(sql, kind, { projectId, id }, { fields: body, userId }))

  routes.delete('/:id', {
    summary: `Delete ${kind.one}`, params: idParams,
    description: `It is no longer enforced. A later ${kind.noun} ${kind.ofName.replace('this', 'the same')} has its own history; version numbers continue.`
  }, async ({ params: { id } }, { projectId }) => { await deleteDefinition(sql, kind, { projectId, id }) })
}

function registerCounts (
  routes: Routes, { sql, clickhouse, now }: DefinitionDeps, { kind, titles, countsSchema, readCounts }: AnyApi
): void {
  routes.get('/counts', {
    summary: titles.counts, description: titles.counted, query: countsQuery, answer: countsSchema
  }, async ({ query: { days = 7 } }, { projectId }) => {
    const definitions = await listCounted(sql, kind, projectId)
    return { results: await answerInTime(readCounts(clickhouse, { projectId, days, now: now() }, definitions)) }
  })
}

function registerCheck (
  routes: Routes, { sql, clickhouse, now }: DefinitionDeps, { kind, titles, check, limits }: AnyApi
): void {
  routes.post('/:id/check', {
    ...limits,
    // It shows stored events.
    scope: 'event:read',
    // No body means the newest version and the defaults.
    preValidation: async (request) => { request.body ??= {} },
    summary: `Check stored events against ${kind.one}`, params: idParams, answer: check.answerSchema,
    body: schemaOf<Record<string, unknown> & { days?: number, limit?: number }>(check.bodySchema),
    description: `${titles.checked} Stores nothing. ${LINES_DESCRIPTION}`
  }, async (request, { projectId }, reply) => {
    const { days = 7, limit = check.limit, ...draft } = request.body
    const run = check.prepare(await findDefinition(sql, kind, { projectId, id: request.params.id }), draft)
    const query = { projectId, days, limit, now: now() }
    return await answerLookBack(request, reply, async (options) => await run(clickhouse, { ...query, ...options }))
  })
}
