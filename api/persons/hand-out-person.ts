/** Hands out everything of a person, as a zip of JSON lines that is made while it is read. */
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { ZipFile } from 'yazl'
import { invalidField } from '../../engines/errors.ts'
import { isFields } from '../../engines/fields.ts'
import { chunksOf, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { scanDeadLetters } from '../../platform/dead-letters/read-dead-letters.ts'
import { decodeContent } from '../../schema/wire/dead-letter-message.ts'
import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import { askStream, type NatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { isoTime } from '../events/receipts/stored-events.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'
import { optional, string } from '../http/json-schema.ts'
import { routesOf } from '../http/routes.ts'
import type { ErasedPersons } from './delete-person.ts'
import { findErased } from './erase-persons.ts'
import { findPersonByUuid } from './find-person.ts'

interface HandOutDeps { sql: Sql, clickhouse: ClickHouse, nats: NatsOnDemand }

/** Lines of a file, with their line feeds. */
type Lines = AsyncGenerator<string>

const query = optional({
  distinct_id: { ...string, minLength: 1, maxLength: 400 },
  person: { ...string, format: 'uuid', description: 'Id of the person, including ids from before a merge.' }
})

export async function handOutRoutes (app: FastifyInstance, deps: HandOutDeps): Promise<void> {
  routesOf(app, { tag: 'persons', object: 'person' }).get('/export', {
    summary: 'Export all data of a person', query, config: { isEndless: true },
    description: 'By distinct id, with or without a person, or by person: a zip of JSON lines with the person, its distinct ids, cohorts, events, flags seen, groups and dead letters. Also requires the scopes event:read and dead_letter:read.',
    answers: { 200: { description: 'The zip file.', content: { 'application/zip': { schema: { type: 'string', format: 'binary' } } } } }
  }, async (request, access, reply) => {
    const { projectId } = access
    access.requireScope('event:read')
    access.requireScope('dead_letter:read')
    const { distinct_id: id, person } = request.query
    if ((id === undefined) === (person === undefined)) throw invalidField('distinct_id', 'Give either distinct_id or person.')
    const ids = id === undefined ? await findIds(deps, projectId, person ?? '') : [toDistinctId(id)]
    const { stream, countLines } = zipFiles(deps, await findErased(deps.sql, projectId, ids))
    stream.once('error', (err) => { request.log.warn({ err }, 'the export of a person was interrupted') })
    stream.once('close', () => { void request.recordRows?.(countLines()).catch((err: unknown) => { request.log.warn({ err }, 'could not record the rows of an export') }) })
    return await reply.type('application/zip').header('content-disposition', 'attachment; filename="person.zip"').send(stream)
  })
}

/** A failure cuts the file off: without its directory at the end nobody takes it for whole. */
function zipFiles (deps: HandOutDeps, found: ErasedPersons): { stream: Readable, countLines: () => number } {
  let lines = 0
  let open: Readable | undefined
  const zip = new ZipFile()
  for (const [name, read] of Object.entries(FILES)) {
    const count = async function * (): Lines {
      for await (const text of read(deps, found)) {
        lines++
        yield text
      }
    }
    zip.addReadStreamLazy(`${name}.jsonl`, {}, (callback) => { callback(null, open = Readable.from(count())) })
  }
  zip.end()
  const stream = Readable.from(zip.outputStream)
  zip.on('error', (error) => { stream.destroy(error instanceof Error ? error : new Error(String(error))) })
  // Whoever leaves ends what is being read for them.
  stream.once('close', () => open?.destroy())
  return { stream, countLines: () => lines }
}

/** Somebody who is known from events only has an id there. */
async function findIds ({ sql, clickhouse }: HandOutDeps, projectId: number, person: string): Promise<string[]> {
  const uuid = await findPersonByUuid({ sql, clickhouse }, projectId, person)
  const rows = uuid === null
    ? await askRows<{ id: string }>(clickhouse, `
      SELECT DISTINCT distinct_id AS id FROM events WHERE project_id = {project: UInt32} AND person_id = {person: UUID} LIMIT 1`, { project: projectId, person })
    : await sql<{ id: string }[]>`
      SELECT distinct_id AS id FROM person_distinct_ids WHERE person_id = (SELECT id FROM persons WHERE project_id = ${projectId} AND uuid = ${uuid})`
  return orNotFound(rows.length === 0 ? null : rows).map(({ id }) => id)
}

const FILES: Readonly<Record<string, (deps: HandOutDeps, found: ErasedPersons) => Lines>> = {
  persons: ({ sql }, { persons }) => fromPostgres(sql, sql`
    SELECT uuid, is_identified, created_at, properties FROM persons WHERE id = ANY (${persons.map(({ id }) => id)}::bigint[])`),
  distinct_ids: async function * (_, { ids }) { for (const id of ids) yield `${JSON.stringify({ distinct_id: id })}\n` },
  cohorts: ({ sql }, { projectId, persons, uuids }) => fromPostgres(sql, sql`
    SELECT id, name FROM cohorts WHERE project_id = ${projectId} AND NOT deleted AND (
      EXISTS (SELECT FROM cohort_members WHERE cohort_id = cohorts.id AND person_id = ANY (${persons.map(({ id }) => id)}::bigint[]))
      OR EXISTS (SELECT FROM cohort_people WHERE cohort_id = cohorts.id AND person = ANY (${uuids}::uuid[])))`),
  flag_hash_keys: ({ sql }, { projectId, ids }) => fromPostgres(sql, sql`
    SELECT distinct_id, feature_flag_key, hash_key, created_at FROM flag_hash_keys WHERE project_id = ${projectId} AND distinct_id = ANY (${ids})`),
  events: (deps, found) => fromClickHouse(deps, found, `
    SELECT concat(substring(toJSONString(CAST((toString(uuid), event, distinct_id, ${isoTime('events.timestamp')}, ${isoTime('events.received_at')}, ip),
      'Tuple(uuid String, event String, distinct_id String, timestamp String, received_at String, ip String)')) AS head, 1, length(head) - 1),
      ',"properties":', properties, '}') FROM events WHERE ${OWN}`),
  flags_seen: (deps, found) => fromClickHouse(deps, found, `
    SELECT toJSONString(CAST((feature_flag, feature_flag_response, toUInt32(count()), ${isoTime('min(events.timestamp)')}, ${isoTime('max(events.timestamp)')}),
      'Tuple(flag String, response String, times UInt32, first_at String, last_at String)'))
    FROM events WHERE ${OWN} AND event = '$feature_flag_called' GROUP BY feature_flag, feature_flag_response`),
  groups: (deps, found) => fromClickHouse(deps, found, `
    SELECT DISTINCT toJSONString(CAST((type, key), 'Tuple(group_type String, group_key String)'))
    FROM events ARRAY JOIN mapKeys(groups) AS type, mapValues(groups) AS key WHERE ${OWN}`),
  dead_letters: async function * ({ nats }, { projectId, ids }) {
    const begun = await askStream(nats, null, async (connection) => {
      const letters = scanDeadLetters(connection, { project: projectId, withBodies: true })
      return { letters, first: await letters.next() }
    })
    for (let next = begun?.first; next?.done === false; next = await begun?.letters.next()) {
      const { letter, body } = next.value
      const content = await decodeContent(body, letter.rows)
      const items = Array.isArray(content) ? content : [content]
      const own = items.filter((item) => isFields(item) && ids.includes(String(item.distinct_id ?? item.distinctId)))
      const { id, time, stage, reason } = letter
      for (const item of own) yield `${JSON.stringify({ id, time, stage, reason, item })}\n`
    }
  }
}

const OWN = 'project_id = {project: UInt32} AND person_id IN {uuids: Array(UUID)}'

/** Each row is a line, as it comes. */
async function * fromClickHouse (
  { clickhouse }: HandOutDeps, { projectId, uuids }: ErasedPersons, query: string
): Lines {
  for (const some of chunksOf(uuids)) {
    const result = await clickhouse.query({
      query, format: 'TabSeparatedRaw', query_params: { project: projectId, uuids: some },
      clickhouse_settings: { wait_end_of_query: 0, final: 1 }
    })
    for await (const rows of result.stream()) {
      for (const { text } of rows) {
        // A query that fails after its first rows ends with the reason in the place of a row.
        if (!text.startsWith('{')) throw new Error(`ClickHouse broke off: ${text}`)
        yield `${text}\n`
      }
    }
  }
}

async function * fromPostgres (sql: Sql, select: Statement): Lines {
  const rows = await sql<{ line: string }[]>`SELECT row_to_json(each)::text AS line FROM (${select}) AS each`
  for (const { line } of rows) yield `${line}\n`
}
