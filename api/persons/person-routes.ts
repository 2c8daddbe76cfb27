import type { FastifyInstance } from 'fastify'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { findPersonByUuid } from './find-person.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { object, optional, type Row, timeOrNull } from '../http/json-schema.ts'
import { newestBy, selectPage } from '../http/list-queries.ts'
import type { NatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { uuidParams } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'
import { deletePerson } from './delete-person.ts'
import { handOutRoutes } from './hand-out-person.ts'
import { repairRoutes } from './repair-routes.ts'

const deletionsQuery = pageQuery({ person: { type: 'string', format: 'uuid', description: 'Only deletions of the person with this id.' } })

const deletionSchema = object({
  id: { type: 'integer' },
  person: { type: 'string', format: 'uuid', description: 'Id of the deleted person.' },
  with_events: { type: 'boolean', description: 'Whether the deletion includes the events.' },
  requested_at: { type: 'string', format: 'date-time' },
  done_at: { ...timeOrNull, description: 'When ClickHouse was verified to have no data of the person left; null: not yet.' },
  swept_at: { ...timeOrNull, description: 'When events still in the stream at the time of the request had also been stored and deleted; null: not yet.' }
})

interface PersonDeps {
  sql: Sql
  clickhouse: ClickHouse
  nats: NatsOnDemand
  publicUrl: string
  /** Longest wait of a deletion for the pipeline, in milliseconds. Default 20 s. */
  deletionWaitMs?: number
}

export async function personRoutes (app: FastifyInstance, deps: PersonDeps): Promise<void> {
  const { sql, publicUrl, deletionWaitMs: waitMs = 20_000 } = deps
  const routes = routesOf(app, { tag: 'persons', object: 'person', publicUrl })
  app.addSchema(personSchema)
  await handOutRoutes(app, deps)
  await repairRoutes(app, deps)

  routes.list('/', {
    summary: 'List persons', description: 'Newest first.', query: personQuery, item: { $ref: 'Person#' }
  }, async ({ query }, { projectId }) => {
    const { distinct_id: distinctId, search } = query
    const page = await selectPage<PersonRow>(sql, query, {
      order: 'newest persons', keys: newestBy(sql`persons.id`),
      select: personColumns(sql), from: sql`persons`,
      where: sql`project_id = ${projectId}
        ${distinctId === undefined ? sql`` : haveId(sql, projectId, sql`distinct_id = ${toDistinctId(distinctId)}`)}
        ${search === undefined ? sql`` : haveId(sql, projectId, sql`starts_with(distinct_id, ${toDistinctId(search)})`)}`
    })
    return { ...page, results: page.results.map(toListedPerson) }
  })

  routes.list('/deletions', {
    summary: 'List deletions of persons', query: deletionsQuery, item: deletionSchema,
    description: 'Newest first. The record is permanent, without distinct ids and properties.'
  }, async ({ query }, { projectId }) => await selectPage<Row<typeof deletionSchema>>(sql, query, {
    order: 'newest deletions', keys: newestBy(sql`person_deletions.id`),
    select: sql`id, person_uuid AS person, with_events, requested_at, done_at, swept_at`, from: sql`person_deletions`,
    where: sql`project_id = ${projectId} AND ${query.person === undefined ? sql`true` : sql`person_uuid = ${query.person}`}`
  }))

  routes.get('/:id', {
    summary: 'Show a person', description: 'By person id, including ids from before a merge.',
    params: uuidParams, answer: { $ref: 'Person#' }
  }, async ({ params: { id } }, { projectId }) => {
    const uuid = await findPersonByUuid(deps, projectId, id)
    const [found] = await sql<PersonRow[]>`
      SELECT ${personColumns(sql)} FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid}`
    return toListedPerson(orNotFound(found))
  })

  routes.delete('/:id', {
    summary: 'Delete a person',
    description: 'By person id, including ids from before a merge. Later events create a new person. Not searched: dead letters, events in spools, groups whose key or properties name the person, properties of the events of others, backups, and tables created by users.',
    params: uuidParams,
    query: optional({
      delete_events: { type: 'boolean', default: false, description: 'Also delete the events received so far for all distinct ids of the person.' }
    }),
    answers: {
      202: { type: 'null', description: 'Accepted: the deletion continues in the background, because the pipeline or ClickHouse is slow or unavailable.' },
      204: { type: 'null', description: "Deleted, and verified by a count of the person's rows and, with delete_events, its events." }
    }
  }, async ({ params: { id: uuid }, query: { delete_events: withEvents } }, { projectId }, reply) => {
    const deleted = await deletePerson({ projectId, uuid, withEvents }, { ...deps, waitMs })
    return await reply.code(orNotFound(deleted).isDone ? 204 : 202).send()
  })
}

type ListedPerson = Row<typeof personSchema>

/** Distinct ids of a person in a list at most. A person of a shared account may have thousands. */
const SHOWN_IDS = 100

const personSchema = object({
  id: { type: 'string', format: 'uuid', description: 'The person_id of events.' },
  uuid: { type: 'string', format: 'uuid', description: 'Same as id.' },
  name: { type: 'string', description: 'Email, else name, else username, else a distinct id.' },
  distinct_ids: { type: 'array', items: { type: 'string' }, description: `In alphabetical order; ${SHOWN_IDS} at most.` },
  properties: { type: 'object', additionalProperties: true },
  is_identified: { type: 'boolean' },
  created_at: { type: 'string', format: 'date-time' }
}, { $id: 'Person' })

const personQuery = pageQuery({
  distinct_id: { type: 'string', description: 'Only the person of this distinct id.' },
  search: { type: 'string', maxLength: 400, description: 'Only persons with a distinct id that begins with this text.' }
})

function haveId (sql: Sql, projectId: number, condition: Statement): Statement {
  return sql`AND id IN (SELECT person_id FROM person_distinct_ids WHERE project_id = ${projectId} AND ${condition})`
}

interface PersonRow {
  row: string
  uuid: string
  is_identified: boolean
  created_at: Date
  properties: string
  distinct_ids: string[]
}

function personColumns (sql: Sql): Statement {
  return sql`id::text AS row, uuid, is_identified, created_at, properties::text AS properties, ARRAY(
    SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id ORDER BY distinct_id LIMIT ${SHOWN_IDS}
  ) AS distinct_ids`
}

function toListedPerson ({ row, uuid, properties: text, distinct_ids: ids, ...fields }: PersonRow): ListedPerson {
  // `JSON.parse` of the driver would round long numbers.
  const properties = parseStoredJson(text) as ListedPerson['properties']
  const name = findName(properties) ?? ids[0] ?? uuid
  return { id: uuid, uuid, name, distinct_ids: ids, properties, ...fields }
}

function findName (properties: Record<string, unknown>): string | undefined {
  return ['email', 'name', 'username'].map((key) => properties[key])
    .find((value): value is string => typeof value === 'string' && value !== '')
}
