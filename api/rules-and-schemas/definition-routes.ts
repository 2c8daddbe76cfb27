import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { answerInTime } from '../http/errors.ts'
import { cursorQueryProperties, searchQueryProperties } from '../http/list-queries.ts'
import { buildPage, pageQueryProperties, pageSchema } from '../http/pagination.ts'
import { accessOf } from '../http/personal-key-access.ts'
import { answerLookBack, LINES_DESCRIPTION } from './look-back.ts'
import { createDefinition, deleteDefinition, updateDefinition } from './change-definitions.ts'
import type { CountedDefinition, CountsQuery } from './definition-counts.ts'
import type { DefinitionFields, DefinitionKind, describeFields } from './definition-kind.ts'
import type { LookBackOptions } from './look-back.ts'
import type { StoredEventsQuery } from './read-stored-events.ts'
import {
  countsQuerySchema, type DefinitionQuery, findDefinition, listCounted, listDefinitions, listVersions,
  type VersionQuery, versionQueryProperties
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
  /** Summaries and descriptions. */
  titles: {
    list: string
    listed: string
    created: string
    counts: string
    counted: string
    versions: string
    updated: string
    checked: string
    deleted: string
  }
  countsSchema: object
  readCounts: (
    clickhouse: ClickHouse, query: CountsQuery, definitions: readonly Counted[]
  ) => Promise<object[]>
  check: {
    bodySchema: object
    answerSchema: object
    /** Events at most by default. */
    limit: number
    /** Compiles the draft of a request, or the newest version; what it returns checks stored events. */
    prepare: (
      stored: Definition, draft: Readonly<Record<string, unknown>>
    ) => (clickhouse: ClickHouse, query: StoredEventsQuery & LookBackOptions) => Promise<object>
  }
}

type AnyApi = DefinitionApi<any, any, any>

const read = { scope: 'event_definition:read' } as const
const write = { scope: 'event_definition:write' } as const
const idParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } as const

interface DefinitionParams {
  Params: { project_id: string, id: number }
}

/** Management of the rules or event schemas of a project. Ingest follows a change within a second. */
export function registerDefinitionRoutes<
  Definition extends object, Version extends { version: number }, Counted extends CountedDefinition
> (
  app: FastifyInstance, deps: DefinitionDeps, api: DefinitionApi<Definition, Version, Counted>
): void {
  app.addSchema(api.fields.definition)
  registerReading(app, deps, api)
  registerChanges(app, deps, api)
  registerCounts(app, deps, api)
  registerCheck(app, deps, api)
}

function registerReading (
  app: FastifyInstance, { sql, publicUrl }: DefinitionDeps, { kind, fields, titles }: AnyApi
): void {
  const tags = [kind.tag]
  const one = { $ref: `${fields.$id}#` }

  app.get<{ Querystring: DefinitionQuery }>('/', {
    config: read,
    schema: {
      tags, summary: titles.list, description: titles.listed, querystring: listQuery(kind.noun),
      response: { 200: pageSchema(one) }
    }
  }, async (request) => {
    const query = { ...request.query, projectId: accessOf(request).projectId }
    return buildPage(request, publicUrl, await listDefinitions(sql, kind, query))
  })

  app.get<DefinitionParams>('/:id', {
    config: read,
    schema: { tags, summary: `Retrieve ${kind.one}`, params: idParams, response: { 200: one } }
  }, async (request) => await findDefinition(sql, kind, keyOf(request)))

  app.get<DefinitionParams & { Querystring: VersionQuery }>('/:id/versions', {
    config: read,
    schema: {
      tags, summary: titles.versions, description: 'Newest first.', params: idParams,
      querystring: { type: 'object', properties: { ...pageQueryProperties, ...versionQueryProperties, ...cursorQueryProperties } },
      response: { 200: pageSchema(fields.version) }
    }
  }, async (request) => {
    const versions = await listVersions(sql, kind, { ...request.query, ...keyOf(request) })
    return buildPage(request, publicUrl, versions)
  })
}

function registerChanges (
  app: FastifyInstance, { sql }: DefinitionDeps, { kind, fields, titles, limits }: AnyApi
): void {
  const tags = [kind.tag]
  const one = { $ref: `${fields.$id}#` }

  app.post<{ Body: DefinitionFields }>('/', {
    ...limits,
    config: write,
    schema: {
      tags, summary: `Create ${kind.one}`, description: titles.created, body: fields.create, response: { 201: one }
    }
  }, async (request, reply) => {
    const { projectId, userId } = accessOf(request)
    return await reply.code(201).send(await createDefinition(sql, kind, { projectId, userId }, request.body))
  })

  app.patch<DefinitionParams & { Body: DefinitionFields }>('/:id', {
    ...limits,
    config: write,
    schema: {
      tags, summary: `Update ${kind.one}`, params: idParams, body: fields.change, response: { 200: one },
      description: `${titles.updated} creates a version; active_version selects the one that is enforced. With \`version\`, 409 ` +
        '`conflict` if there is a newer one.'
    }
  }, async (request) =>
    await updateDefinition(sql, kind, keyOf(request), { fields: request.body, userId: accessOf(request).userId }))

  app.delete<DefinitionParams>('/:id', {
    config: write,
    schema: {
      tags, summary: `Delete ${kind.one}`, params: idParams, description: titles.deleted,
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await deleteDefinition(sql, kind, keyOf(request))
    return await reply.code(204).send()
  })
}

function registerCounts (
  app: FastifyInstance, deps: DefinitionDeps, { kind, titles, countsSchema, readCounts }: AnyApi
): void {
  app.get<{ Querystring: { days?: number } }>('/counts', {
    config: read,
    schema: {
      tags: [kind.tag], summary: titles.counts, description: titles.counted, querystring: countsQuerySchema,
      response: { 200: countsSchema }
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const query = { projectId, days: request.query.days ?? 7, now: deps.now() }
    const definitions = await listCounted(deps.sql, kind, projectId)
    return { results: await answerInTime(readCounts(deps.clickhouse, query, definitions)) }
  })
}

function registerCheck (
  app: FastifyInstance, deps: DefinitionDeps, { kind, titles, check, limits }: AnyApi
): void {
  app.post<DefinitionParams & { Body: Record<string, unknown> & { days?: number, limit?: number } }>('/:id/check', {
    ...limits,
    // It shows stored events.
    config: { scope: 'event:read' },
    // No body means the newest version and the defaults.
    preValidation: async (request) => { request.body ??= {} },
    schema: {
      tags: [kind.tag], summary: `Check stored events by ${kind.one}`, params: idParams, body: check.bodySchema,
      response: { 200: check.answerSchema }, description: `${titles.checked} Stores nothing. ${LINES_DESCRIPTION}`
    }
  }, async (request, reply) => {
    const key = keyOf(request)
    const { days = 7, limit = check.limit, ...draft } = request.body
    const run = check.prepare(await findDefinition(deps.sql, kind, key), draft)
    const query = { projectId: key.projectId, days, limit, now: deps.now() }
    return await answerLookBack(request, reply, async (options) => await run(deps.clickhouse, { ...query, ...options }))
  })
}

function listQuery (noun: string): object {
  return {
    type: 'object',
    properties: {
      ...pageQueryProperties,
      ...searchQueryProperties,
      active: { type: 'boolean', description: `true: only ${noun}s with an active version; false: only the others. Default: both.` },
      ...cursorQueryProperties
    }
  }
}

function keyOf (request: FastifyRequest<DefinitionParams>): { projectId: number, id: number } {
  return { projectId: accessOf(request).projectId, id: request.params.id }
}
