import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { askRows } from '../../http/describe-clickhouse-error.ts'
import { array, object, optional, partial, type Value } from '../../http/json-schema.ts'
import { readNameList } from '../../http/request-values.ts'
import { routesOf } from '../../http/routes.ts'
import { type Experiment, experimentProperties, findExperiment } from '../experiment.ts'
import { readMetric } from './read-metric.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'

interface RequiresFlagDeps { sql: Sql, clickhouse: ClickHouse }

const query = optional({
  id: { type: 'integer', minimum: 1, description: 'Experiment. Default: the newest one that is not archived.' },
  events: { type: 'string', maxLength: 100_000, description: 'Events to check; a JSON array, or separated by commas. Default: those of the metric.' }
})

const implementation = object({
  event: { type: 'string' },
  looked_at: { type: 'integer', description: 'Number of checked events of the last seven days, at most 20.' },
  with_flags: { type: 'integer' }
})

const answer = partial({
  // The experiment's own fields; absent when the project has none.
  ...experimentProperties,
  result: { type: 'boolean', description: 'true if no checked event had the value of any flag.' },
  events: array(implementation)
}, 'result', 'events')

/** Tells whether events lack the values of flags, so that the SDK should be configured to send them. */
export async function requiresFlagRoute (app: FastifyInstance, deps: RequiresFlagDeps): Promise<void> {
  routesOf(app, { tag: 'experiments', object: 'experiment' }).get('/requires_flag_implementation', {
    summary: 'Check whether events carry the values of flags', query, answer,
    description: 'Samples up to 20 events of the last seven days for each event of the metric. The answer includes the experiment.'
  }, async (request, { projectId }) => {
    const experiment = await chooseExperiment(deps, projectId, request.query.id)
    const names = readNameList('events', request.query.events) ?? eventsOf(experiment)
    const events = await lookForFlags(deps.clickhouse, projectId, [...new Set(names)])
    return { ...experiment, result: events.every((event) => event.with_flags === 0), events }
  })
}

async function chooseExperiment (
  deps: RequiresFlagDeps, projectId: number, id: number | undefined
): Promise<Experiment | undefined> {
  if (id !== undefined) return await findExperiment(deps.sql, projectId, id)
  const [newest] = await deps.sql<{ id: number }[]>`
    SELECT id FROM experiments WHERE project_id = ${projectId} AND NOT deleted AND NOT archived ORDER BY id DESC LIMIT 1`
  return newest === undefined ? undefined : await findExperiment(deps.sql, projectId, newest.id)
}

function eventsOf (experiment: Experiment | undefined): string[] {
  const metric = experiment === undefined ? undefined : readMetric('filters', experiment.filters)
  return metric?.steps.flatMap(({ event }) => event ?? []) ?? []
}

/** Whether events carry values of flags (`$feature/<key>`): of each event, up to 20 of the last seven days are read. */
const QUERY = `
  SELECT event, count() AS looked_at, countIf(position(properties, '$feature/') > 0) AS with_flags
  FROM (
    SELECT event, properties FROM events
    WHERE project_id = {project_id:UInt32} AND event IN {events:Array(String)} AND timestamp >= now() - toIntervalDay(7)
    LIMIT 20 BY event
  )
  GROUP BY event`

type FlagImplementation = Value<typeof implementation>

/**
 * Looks whether the SDK sends the values of flags with the given events.
 *
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
async function lookForFlags (
  clickhouse: ClickHouse, projectId: number, events: readonly string[]
): Promise<FlagImplementation[]> {
  const rows = await askRows<FlagImplementation>(clickhouse, QUERY, { project_id: projectId, events },
    { output_format_json_quote_64bit_integers: 0, max_execution_time: 30 })
  return events.map((event) => rows.find((row) => row.event === event) ?? { event, looked_at: 0, with_flags: 0 })
}
