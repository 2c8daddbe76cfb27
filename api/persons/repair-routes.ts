import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { HttpError, invalidField } from '../../engines/errors.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql, Statement, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { isoTime } from '../events/receipts/stored-events.ts'
import { notFound, orNotFound } from '../http/answer-errors.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'
import { array, bodyOf, object, type Row, string, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { newestBy, selectPage } from '../http/list-queries.ts'
import { uuidParams } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'
import { findPersonByUuid } from './find-person.ts'

interface RepairDeps {
  sql: Sql
  clickhouse: ClickHouse
  publicUrl: string
}

/** Maximum wait for the pipeline, in milliseconds. */
const WAIT_MS = 20_000
const POLL_MS = 100

const uuid = { ...string, format: 'uuid' } as const
const ids = (description: string) => ({ type: 'array', items: { ...string, minLength: 1, maxLength: 400 }, minItems: 1, maxItems: 1000, description }) as const

const repairSchema = object({
  id: { type: 'integer' },
  kind: { type: 'string', enum: ['undo', 'split'] },
  person: { ...uuid, description: 'Id of the person when the repair was requested.' },
  event: { type: ['string', 'null'], format: 'uuid', description: 'Event of the undone merge.' },
  distinct_ids: array(string, { description: 'Distinct ids of the undone merge, or of the split parts.' }),
  requested_at: { ...string, format: 'date-time' },
  done_at: { ...timeOrNull, description: 'When the persons were recomputed; null: not yet.' },
  persons: { type: 'array', items: uuid, description: 'Ids of the persons that have the distinct ids of the original person after the repair.' },
  error: { type: ['string', 'null'], description: 'Why the repair is impossible.' }
}, { $id: 'PersonRepair' })

type PersonRepair = Row<typeof repairSchema>

const ANSWERS = {
  200: { $ref: 'PersonRepair#' },
  202: { $ref: 'PersonRepair#', description: 'Accepted: the repair continues in the background, because accepted events are not all stored yet.' }
}

/** Undoes merges of persons and splits persons. The pipeline carries it out. */
export async function repairRoutes (app: FastifyInstance, deps: RepairDeps): Promise<void> {
  const { sql, publicUrl } = deps
  const routes = routesOf(app, { tag: 'persons', object: 'person', publicUrl })
  app.addSchema(repairSchema)

  routes.list('/repairs', {
    summary: 'List splits and undone merges', description: 'Newest first.', item: { $ref: 'PersonRepair#' }, query: pageQuery()
  }, async ({ query }, { projectId }) => await selectPage<PersonRepair>(sql, query, {
    order: 'newest repairs', keys: newestBy(sql`person_repairs.id`),
    select: repairColumns(sql), from: sql`person_repairs`, where: sql`project_id = ${projectId}`
  }))

  routes.post('/:id/split', {
    summary: 'Split a person',
    description: 'Removes distinct ids from a person. Past and future events of these ids, and the properties they set, belong to the new person. With `main_distinct_id` (as in PostHog), or without a body, every other id becomes a person of its own.',
    params: uuidParams, answers: ANSWERS,
    body: {
      ...bodyOf({
        distinct_ids: ids('Distinct ids to split off, together, into one new person.'),
        main_distinct_id: { type: ['string', 'null'], description: 'The distinct id that stays; ignored with `distinct_ids`.' }
      }), type: ['object', 'null']
    }
  }, async ({ params: { id }, body }, { projectId }, reply) => {
    const uuid = orNotFound(await findPersonByUuid(deps, projectId, id))
    return await requestRepair(sql, { projectId, uuid }, reply, async (person) => {
      const parts = toParts(person, projectId, body ?? {})
      return { kind: 'split', parts, distinct_ids: parts.flat() }
    })
  })

  routes.post('/:id/undo_merge', {
    summary: 'Undo a merge',
    description: 'Recomputes the persons as if the merge had never happened. The event itself still counts and sets its properties. Another event that merges the same ids keeps them together.',
    params: uuidParams, answers: ANSWERS, body: bodyOf({ event: { ...uuid, description: 'uuid of the event that merged, from the history of the person.' } }, 'event')
  }, async ({ params: { id }, body: { event } }, { projectId }, reply) => {
    const uuid = orNotFound(await findPersonByUuid(deps, projectId, id))
    const [merge] = await readMerges(deps, projectId, 'events.uuid = {event: UUID}', { event })
    return await requestRepair(sql, { projectId, uuid }, reply, async ({ ids }, transaction) => {
      const named = merge === undefined ? [] : [merge.distinct_id, merge.other_distinct_id]
      if (merge === undefined || !named.some((each) => ids.includes(each))) throw invalidField('event', 'event must be the uuid of an event that merged distinct ids of this person.')
      const [earlier] = await transaction`
        SELECT 1 FROM person_repairs WHERE project_id = ${projectId} AND event_uuid = ${merge.uuid} AND error IS NULL`
      if (earlier !== undefined) throw new HttpError(409, 'invalid_request', 'already_undone', 'This merge is already undone, or is being undone.', { attr: 'event' })
      return { kind: 'undo', event_uuid: merge.uuid, distinct_ids: named }
    })
  })
}

interface KnownPerson { uuid: string, ids: string[] }

async function readPerson (sql: Sql | TransactionSql, projectId: number, uuid: string): Promise<KnownPerson> {
  const [person] = await sql<KnownPerson[]>`
    SELECT uuid, ARRAY(SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id) AS ids
    FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
  return orNotFound(person)
}

interface NewRepair { kind: PersonRepair['kind'], event_uuid?: string, parts?: string[][], distinct_ids: string[] }

/**
 * Records a repair under the persons lock, as an erasure or another request for the same may run at the same time, and
 * waits for the pipeline.
 */
async function requestRepair (
  sql: Sql, { projectId, uuid }: { projectId: number, uuid: string }, reply: FastifyReply,
  plan: (person: KnownPerson, transaction: TransactionSql) => Promise<NewRepair>
): Promise<unknown> {
  const repair = await sql.begin(async (transaction) => {
    await lockPersons(transaction, [projectId])
    const person = await readPerson(transaction, projectId, uuid)
    const { kind, event_uuid: event = null, parts = null, distinct_ids: ids } = await plan(person, transaction)
    const [recorded] = await transaction<[{ id: number }]>`
      INSERT INTO person_repairs (project_id, person_uuid, kind, event_uuid, parts, distinct_ids)
      VALUES (${projectId}, ${uuid}, ${kind}, ${event}, ${parts && sql.json(parts)}::jsonb, ${ids}) RETURNING id`
    return recorded.id
  })
  return await answerWhenDone(sql, repair, reply)
}

function toParts (
  { uuid, ids }: KnownPerson, projectId: number,
  { distinct_ids: given, main_distinct_id: main }: { distinct_ids?: string[], main_distinct_id?: string | null }
): string[][] {
  const field = given === undefined ? 'main_distinct_id' : 'distinct_ids'
  const named = given ?? (typeof main === 'string' ? [main] : [])
  const foreign = named.find((id) => !ids.includes(id))
  if (foreign !== undefined) throw invalidField(field, `${field}: the person does not have the distinct id ${JSON.stringify(foreign)}.`)
  const leaving = [...new Set(named)]
  if (given !== undefined && leaving.length < ids.length) return [leaving]
  const staying = main ?? ids.find((id) => personUuid(projectId, id) === uuid) ?? ids[0]
  if (given !== undefined || ids.length < 2) throw invalidField(field, `${field}: at least one distinct id must stay with the person, which has ${ids.length}.`)
  return ids.filter((id) => id !== staying).map((id) => [id])
}

function repairColumns (sql: Sql): Statement {
  return sql`id, kind, person_uuid AS person, event_uuid AS event, distinct_ids, requested_at, done_at, coalesce(person_uuids, '{}') AS persons, error`
}

async function answerWhenDone (sql: Sql, id: number, reply: FastifyReply): Promise<unknown> {
  for (const deadline = performance.now() + WAIT_MS; ; await delay(POLL_MS)) {
    const [repair] = await sql<PersonRepair[]>`SELECT ${repairColumns(sql)} FROM person_repairs WHERE id = ${id}`
    if (repair === undefined) throw notFound()
    if (repair.error !== null) throw new HttpError(409, 'invalid_request', 'not_repairable', `The person cannot be repaired: ${repair.error}.`)
    if (repair.done_at === null && performance.now() < deadline) continue
    return await reply.code(repair.done_at === null ? 202 : 200).send(repair)
  }
}

/** A merge as its event asked for it. */
export const mergeSchema = object({
  uuid: { ...string, format: 'uuid', description: 'uuid of the event.' },
  event: { ...string, description: '`$identify`, `$create_alias` or `$merge_dangerously`.' },
  at: { ...time, description: 'When it was received.' },
  distinct_id: { ...string, description: 'Its person survives.' },
  other_distinct_id: { ...string, description: 'Its person is merged into the other one.' },
  undone_at: { ...timeOrNull, description: 'When the merge was undone; null: it is in effect.' }
})

type Merge = Value<typeof mergeSchema>

/** With the parameter `ids`. */
export const NAMES_AN_ID = '(distinct_id IN {ids: Array(String)} OR other_distinct_id IN {ids: Array(String)})'

/**
 * Events that named distinct ids to be merged and meet a condition, newest first. @throws {HttpError} 503 without
 * ClickHouse.
 */
export async function readMerges (
  { sql, clickhouse }: Pick<RepairDeps, 'sql' | 'clickhouse'>, projectId: number, where: string, params: Record<string, unknown>
): Promise<Merge[]> {
  const merges = await askRows<Omit<Merge, 'undone_at'>>(clickhouse, `
    SELECT toString(uuid) AS uuid, event, ${isoTime('received_at')} AS at, distinct_id,
      substringUTF8(JSONExtractString(properties, if(event = '$identify', '$anon_distinct_id', 'alias')), 1, 200) AS other_distinct_id
    FROM events WHERE project_id = {project: UInt32} AND NOT without_person AND event IN ('$identify', '$create_alias', '$merge_dangerously')
      AND ${where} AND other_distinct_id NOT IN ('', distinct_id)
    ORDER BY received_at DESC, uuid LIMIT 1000 SETTINGS final = 1, max_execution_time = 10`,
  { ...params, project: projectId })
  const undone = await sql<{ uuid: string, at: Date }[]>`
    SELECT event_uuid AS uuid, done_at AS at FROM person_repairs
    WHERE project_id = ${projectId} AND done_at IS NOT NULL AND event_uuid = ANY (${merges.map(({ uuid }) => uuid)}::uuid[])`
  const undoneAt = new Map(undone.map(({ uuid, at }) => [uuid, at.toISOString()]))
  return merges.map((merge) => ({ ...merge, undone_at: undoneAt.get(merge.uuid) ?? null }))
}
