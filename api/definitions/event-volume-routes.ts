import { quoteString } from 'chdb-server/sql-lexer'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'
import { array, object, optional } from '../http/json-schema.ts'
import { invalidField } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { readNameList, UUID } from '../http/request-values.ts'
import type { Routes } from '../http/routes.ts'
import { PROFILE_DAYS, profileDays } from './definition-profile.ts'

const MAX_IDS = 100

const MAX_SECONDS = 10

const volumesSchema = object({
  from: { type: 'string', format: 'date', description: 'The first day, UTC.' },
  results: array(object({
    id: { type: 'string', format: 'uuid' },
    volumes: { type: 'array', items: { type: 'integer' }, description: `Events of each of ${PROFILE_DAYS} days by their timestamps, today last.` }
  }))
})

export function declareEventVolumes (
  routes: Routes, { sql, clickhouse, now }: { sql: Sql, clickhouse: ClickHouse, now: () => number }
): void {
  routes.get('/volumes', {
    summary: 'Count events by day', answer: volumesSchema,
    query: optional({ ids: { type: 'string', description: `Ids of at most ${MAX_IDS} definitions, separated by commas.` } })
  }, async (request, { projectId }) => {
    const ids = readIds(request.query.ids)
    const definitions = await sql<{ id: string, name: string }[]>`
      SELECT id, name FROM event_definitions WHERE project_id = ${projectId} AND id = ANY(${ids}::uuid[]) AND deleted_at IS NULL`
    const { firstDay, from } = profileDays(now())
    const volumes = await readVolumes(clickhouse, { projectId, firstDay, names: definitions.map(({ name }) => name) })
    return { from, results: definitions.map(({ id, name }) => ({ id, volumes: volumes.get(name) ?? noDays() })) }
  })
}

/** @throws {HttpError} 400 for an invalid list of ids. */
function readIds (text: string | undefined): string[] {
  const ids = readNameList('ids', text) ?? []
  if (ids.length <= MAX_IDS && ids.every((id) => UUID.test(id))) return ids
  throw invalidField('ids', `ids must be at most ${MAX_IDS} ids of definitions.`)
}

async function readVolumes (
  clickhouse: ClickHouse, { projectId, firstDay, names }: { projectId: number, firstDay: number, names: string[] }
): Promise<Map<string, number[]>> {
  const volumes = new Map(names.map((name) => [name, noDays()]))
  if (names.length === 0) return volumes
  // In the text: parameters travel in the address of a query, which many names are too long for.
  const rows = await askRows<{ event: string, day: number, volume: number }>(clickhouse, `
    SELECT event, toUInt32(day) AS day, toFloat64(sum(v.volume)) AS volume
    FROM event_volumes_daily AS v
    WHERE project_id = {project: UInt32} AND v.day >= toDate({first: UInt32}) AND event IN (${names.map(quoteString).join(', ')})
    GROUP BY event, v.day SETTINGS max_execution_time = ${MAX_SECONDS}`, { project: projectId, first: firstDay })
  for (const { event, day, volume } of rows) {
    const days = volumes.get(event)
    // Events of the future have days beyond the last.
    if (days !== undefined && day - firstDay < PROFILE_DAYS) days[day - firstDay] = volume
  }
  return volumes
}

function noDays (): number[] {
  return Array.from({ length: PROFILE_DAYS }, () => 0)
}
