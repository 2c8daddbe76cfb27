import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { checkStoredEventsByRule } from './check-stored-rules.ts'
import { readRuleCounts } from './read-rule-counts.ts'
import { answerLookBack, LINES_DESCRIPTION } from '../answer-look-back.ts'
import { answerInTime } from '../../http/errors.ts'
import { cursorQueryProperties, searchQueryProperties } from '../../http/list-queries.ts'
import { buildPage, pageQueryProperties, pageSchema } from '../../http/pagination.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { deleteDefinition } from '../change-definitions.ts'
import {
  countsQuerySchema, type DefinitionQuery, findDefinition, listCounted, listDefinitions, listVersions,
  type VersionQuery, versionQueryProperties
} from '../versioned-definitions.ts'
import {
  EVENT_RULES, type EventRule, type EventRuleChange, eventRuleChangesSchema, eventRuleSchema, type NewEventRule,
  newEventRuleSchema, ruleCheckBodySchema, type RuleCheckFields, ruleCountsSchema, rulePredictionSchema,
  ruleVersionSchema
} from './event-rule.ts'
import { compileDraftRule, createEventRule, updateEventRule } from './write-event-rule.ts'

const read = { scope: 'event_definition:read' } as const
const write = { scope: 'event_definition:write' } as const
const tags = ['rules']
const one = { $ref: 'EventRule#' }
const idParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1, maximum: 2_147_483_647 } } } as const

interface RuleParams {
  Params: { project_id: string, id: number }
}

const listQuery = {
  type: 'object',
  properties: {
    ...pageQueryProperties,
    ...searchQueryProperties,
    active: { type: 'boolean', description: 'true: only rules with an active version; false: only the others. Default: both.' },
    ...cursorQueryProperties
  }
}

/** Management of the rules of a project. Ingest follows a change within a second. */
export async function eventRuleRoutes (
  app: FastifyInstance, deps: { sql: Sql, clickhouse: ClickHouse, publicUrl: string, now: () => number }
): Promise<void> {
  const { sql } = deps
  app.addSchema(eventRuleSchema)

  app.get<{ Querystring: DefinitionQuery }>('/', {
    config: read,
    schema: {
      tags, summary: 'List rules', description: 'In the order in which they run.', querystring: listQuery,
      response: { 200: pageSchema(one) }
    }
  }, async (request) => {
    const query = { projectId: accessOf(request).projectId, ...request.query }
    return buildPage(request, deps.publicUrl, await listDefinitions(sql, EVENT_RULES, query))
  })

  app.post<{ Body: NewEventRule }>('/', {
    config: write,
    schema: {
      tags, summary: 'Create a rule', body: newEventRuleSchema, response: { 201: one },
      description: 'Its tests are tried first. Not enforced before a version is active.'
    }
  }, async (request, reply) => {
    const { projectId, userId } = accessOf(request)
    return await reply.code(201).send(await createEventRule(sql, { projectId, userId }, request.body))
  })

  app.get<{ Querystring: { days?: number } }>('/counts', {
    config: read,
    schema: {
      tags, summary: 'Count what rules did', querystring: countsQuerySchema, response: { 200: ruleCountsSchema },
      description: 'Events that each rule dropped, sampled out or changed.'
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    const query = { projectId, days: request.query.days ?? 7, now: deps.now() }
    const rules = await listCounted<EventRule>(sql, EVENT_RULES, projectId)
    return { results: await answerInTime(readRuleCounts(deps.clickhouse, query, rules)) }
  })

  app.get<RuleParams>('/:id', {
    config: read,
    schema: { tags, summary: 'Retrieve a rule', params: idParams, response: { 200: one } }
  }, async (request) => await findDefinition(sql, EVENT_RULES, keyOf(request)))

  app.get<RuleParams & { Querystring: VersionQuery }>('/:id/versions', {
    config: read,
    schema: {
      tags, summary: 'List the versions of a rule', description: 'Newest first.', params: idParams,
      querystring: { type: 'object', properties: { ...pageQueryProperties, ...versionQueryProperties, ...cursorQueryProperties } },
      response: { 200: pageSchema(ruleVersionSchema) }
    }
  }, async (request) => {
    const versions = await listVersions(sql, EVENT_RULES, { ...keyOf(request), ...request.query })
    return buildPage(request, deps.publicUrl, versions)
  })

  app.patch<RuleParams & { Body: EventRuleChange }>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Update a rule', params: idParams, body: eventRuleChangesSchema, response: { 200: one },
      description: 'Another condition, action or test makes a version; active_version says which one is enforced. With ' +
        '`version`, 409 `conflict` when there is another one by now.'
    }
  }, async (request) =>
    await updateEventRule(sql, keyOf(request), { fields: request.body, userId: accessOf(request).userId }))

  app.post<RuleParams & { Body: RuleCheckFields }>('/:id/check', {
    // It says whose events pass.
    config: { scope: 'event:read' },
    // No body means the newest version and the defaults.
    preValidation: async (request) => { request.body ??= {} },
    schema: {
      tags, summary: 'Check stored events by a rule', params: idParams, body: ruleCheckBodySchema,
      response: { 200: rulePredictionSchema },
      description: `Says what the rule would have done with events that are stored. Stores nothing. ${LINES_DESCRIPTION}`
    }
  }, async (request, reply) => {
    const { days = 7, limit = 100_000, ...draft } = request.body
    const stored = await findDefinition(sql, EVENT_RULES, keyOf(request))
    const compiled = compileDraftRule(draft.actions === undefined ? { ...stored, ...draft } : draft)
    const query = { projectId: accessOf(request).projectId, days, limit, now: deps.now() }
    return await answerLookBack(request, reply, async (options) => {
      const found = await checkStoredEventsByRule(deps.clickhouse, compiled, { ...query, ...options })
      const { libs, withoutAddress, ...prediction } = found
      return {
        ...prediction,
        without_address: withoutAddress,
        libs: libs.map(({ libVersion, ...lib }) => ({ ...lib, lib_version: libVersion }))
      }
    })
  })

  app.delete<RuleParams>('/:id', {
    config: write,
    schema: {
      tags, summary: 'Delete a rule', params: idParams,
      description: 'It is no longer enforced. Another one of the same name has a history of its own, whose numbers go on.',
      response: { 204: { type: 'null', description: 'Deleted.' } }
    }
  }, async (request, reply) => {
    await deleteDefinition(sql, EVENT_RULES, keyOf(request))
    return await reply.code(204).send()
  })
}

function keyOf (request: FastifyRequest<RuleParams>): { projectId: number, id: number } {
  return { projectId: accessOf(request).projectId, id: request.params.id }
}
