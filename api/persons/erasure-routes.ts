import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { invalidField } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { toErasedEvents } from '../../schema/wire/erased-ids.ts'
import { toDistinctId } from '../../schema/wire/identity.ts'
import type { NatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { array, bodyOf, object, type Row, string, timeOrNull, type Value } from '../http/json-schema.ts'
import { newestBy, selectPage } from '../http/list-queries.ts'
import { idParams } from '../http/request-values.ts'
import { pageQuery, routesOf } from '../http/routes.ts'
import { waitForDeletion } from './delete-person.ts'
import { erasePersons, type Erasure } from './erase-persons.ts'
import { appendErasures } from './erasure-file.ts'
import { eventFilterSchema, findMatchingIds, personFilterSchema, toEventFilter } from './matching-persons.ts'

/** Maximum wait for the pipeline, in milliseconds. */
const WAIT_MS = 20_000

const found = array(object({ where: string, count: { type: 'integer' } }), { description: 'Number of matches by place.' })

const erasureSchema = object({
  id: { type: 'integer' },
  requested_at: { ...string, format: 'date-time', description: 'Events from before this time are erased; later ones are stored.' },
  done_at: { ...timeOrNull, description: 'When a count confirmed that nothing is left in ClickHouse; null: not yet.' },
  of: { ...string, enum: ['persons', 'events', 'anonymised'], description: 'persons: with all their data; events: those that match a filter; anonymised: persons whose ids were replaced.' },
  found
}, { $id: 'Erasure' })

const bodySchema = bodyOf({
  distinct_ids: { type: 'array', items: { ...string, minLength: 1, maxLength: 400 }, minItems: 1, maxItems: 1000 },
  persons: personFilterSchema,
  events: eventFilterSchema,
  anonymise: { type: 'boolean', default: false, description: 'Replace the distinct ids with random ones instead of erasing the persons; counts do not change.' },
  remove_properties: { type: 'array', items: { ...string, minLength: 1, maxLength: 400 }, maxItems: 200, default: [], description: 'With `anonymise`: names of event and person properties to remove.' },
  dry_run: { type: 'boolean', default: false, description: 'Only count.' }
})

const answerSchema = object({
  id: { type: ['integer', 'null'], description: 'Null: a dry run.' },
  distinct_ids: array(string, { description: 'The given distinct ids, and all others of their persons.' }),
  done_at: erasureSchema.properties.done_at,
  found,
  not_searched: array(object({ what: string, command: string }), { description: 'What cannot be searched or also belongs to others, and the command that handles it.' })
})

interface ErasureDeps { sql: Sql, clickhouse: ClickHouse, nats: NatsOnDemand, publicUrl: string, backupFolder?: string }

/** Erases everything of distinct ids, and keeps a record that names nobody. */
export async function erasureRoutes (app: FastifyInstance, deps: ErasureDeps): Promise<void> {
  const { sql, clickhouse, publicUrl } = deps
  const routes = routesOf(app, { tag: 'persons', object: 'person', publicUrl })
  app.addSchema(erasureSchema)

  routes.post('/', {
    summary: 'Erase or anonymise persons, or erase events',
    description: 'For `distinct_ids`, with or without a person, or for matching `persons`, erases: events, the persons with all their distinct ids, samples of warnings, queued notifications, dead letters that hold nothing of other people, stored flag hash keys, splits, groups whose key is one of these ids, and rows of exports. For `events`, erases only matching events. A restored backup, an import, a replay or an old spool does not bring erased data back.',
    body: bodySchema, answer: answerSchema, config: { hasSecretBody: true }
  }, async ({ body }, { projectId }) => {
    const erasure = await findAsked(clickhouse, projectId, body)
      .catch((error: unknown) => { throw describeClickHouseError(error, 'which has the events') })
    const erased = await erasePersons(deps, projectId, erasure, body.dry_run === true)
    const { id = null, deletion, ids, found, shared } = orNotFound(erased)
    // The next backup adds what cannot be written now.
    if (id !== null && deps.backupFolder) await appendErasures(sql, deps.backupFolder).catch(() => {})
    return {
      id, distinct_ids: ids, found, not_searched: listUnsearched(projectId, ids, shared),
      done_at: deletion === undefined ? null : await waitForDeletion(sql, deletion, WAIT_MS)
    }
  })

  routes.list('/', { summary: 'List erasures', description: 'Newest first, without distinct ids.', item: { $ref: 'Erasure#' }, query: pageQuery() },
    async ({ query }, { projectId }) => await selectPage<Row<typeof erasureSchema>>(sql, query, {
      order: 'newest erasures', keys: newestBy(sql`erasures.id`), from: sql`erasures`,
      select: sql`id, requested_at, (SELECT done_at FROM person_deletions WHERE id = deletion_id) AS done_at, found,
        CASE WHEN filter IS NOT NULL THEN 'events' WHEN removed_properties IS NOT NULL THEN 'anonymised' ELSE 'persons' END AS of`,
      where: sql`project_id = ${projectId}`
    }))

  routes.delete('/:id', {
    summary: 'Delete the record of an erasure', params: idParams,
    description: 'Afterwards an import, a replay or a restored backup may bring its events back.'
  }, async ({ params: { id } }, { projectId }) => {
    orNotFound((await sql`
      WITH gone AS (DELETE FROM erasures WHERE project_id = ${projectId} AND id = ${id} RETURNING deletion_id),
        ended AS (UPDATE person_deletions SET is_erasure = false WHERE id IN (SELECT deletion_id FROM gone)) SELECT 1 AS found FROM gone`)[0])
  })
}

async function findAsked (clickhouse: ClickHouse, projectId: number, body: Value<typeof bodySchema>): Promise<Erasure> {
  const { distinct_ids: ids, persons, events, anonymise = false, remove_properties: removed = [] } = body
  if ([ids, persons, events].filter((each) => each !== undefined).length !== 1) {
    throw invalidField('distinct_ids', 'Give exactly one of distinct_ids, persons and events.')
  }
  if (!anonymise && removed.length > 0) throw invalidField('remove_properties', 'remove_properties needs anonymise.')
  if (events !== undefined) {
    if (anonymise) throw invalidField('anonymise', 'anonymise is for distinct_ids or persons.')
    return { ids: [], filter: toErasedEvents(await toEventFilter(clickhouse, projectId, events), projectId) }
  }
  const asked = ids?.map(toDistinctId) ?? await findMatchingIds(clickhouse, projectId, persons ?? {})
  return { ids: asked, removed: anonymise ? removed : null }
}

function listUnsearched (
  projectId: number, ids: readonly string[], letters: readonly number[]
): { what: string, command: string }[] {
  const texts = ids.slice(0, 10).map((id) => `'${id.replaceAll(/['\\]/g, '\\$&')}'`).join(', ')
  return [
    ...ids.length === 0 ? [] : [{ what: 'properties and groups of the events of others', command: `SELECT uuid, event FROM events WHERE project_id = ${projectId} AND multiSearchAny(properties, [${texts}])` }],
    { what: 'tables and views of your own', command: "SELECT database, name FROM system.tables WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')" },
    { what: 'the record of readings, which has what was searched for', command: 'GET /api/record' },
    { what: 'files of Postgres: deleted rows, and statistics, which a plain ANALYZE may keep', command: 'DELETE FROM pg_statistic; VACUUM FULL; ANALYZE' },
    { what: 'backups: a restore erases again', command: 'npx millrace backups list' },
    ...letters.map((id) => ({ what: `dead letter ${id}, which has events of others`, command: `npx millrace dead-letters purge ${id} --yes` }))
  ]
}
