import type { FastifyInstance } from 'fastify'
import { quoteString } from 'chdb-server/sql-lexer'
import { invalidField } from '../../../engines/errors.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { orNotFound } from '../../http/answer-errors.ts'
import { object, optional } from '../../http/json-schema.ts'
import { parseIsoDateTime } from '../../http/request-values.ts'
import { refuseUnstorableValue } from '../../http/request-validation.ts'
import { routesOf } from '../../http/routes.ts'
import { askAs } from '../../people/mask-mails.ts'
import { DEFAULT_EFFECT } from '../analysis-settings.ts'
import { experimentIdParams } from '../experiment-routes.ts'
import { findExperiment } from '../experiment.ts'
import { computeResults, findScope, type MetricResults, weightsOf } from './compute-results.ts'
import { planExperiment, planSchema } from './plan-experiment.ts'
import { readMetric } from './read-metric.ts'

const DAY_MS = 86_400_000

interface PlanDeps {
  sql: Sql
  clickhouse: ClickHouse
  now: () => number
  describe: (results: MetricResults) => object
}

/** The length that an experiment needs, and the effect of all flags of a holdout together. */
export async function planRoutes (app: FastifyInstance, deps: PlanDeps): Promise<void> {
  const routes = routesOf(app, { tag: 'experiments', object: 'experiment' })

  routes.get('/:id/plan', {
    summary: 'Plan the size and length of an experiment', params: experimentIdParams, answer: planSchema,
    description: 'Based on recent activity in the project, with and without CUPED. Works for drafts, too.',
    query: optional({ days: { type: 'integer', minimum: 7, maximum: 90, default: 28, description: 'Days of activity to use.' } })
  }, async ({ params: { id }, query: { days } }, { projectId }) => {
    const experiment = await findExperiment(deps.sql, projectId, id)
    const metric = readMetric('filters', experiment.filters)
    if (metric === undefined) throw invalidField('filters', 'Experiment has no target metric', 'required')
    const now = new Date(deps.now())
    const since = new Date(now.getTime() - days * DAY_MS)
    const lately = { ...experiment, start_date: since, end_date: null }
    const { scope, variants, baseline, effect } = await findScope(deps.sql, projectId, lately, now)
    return await planExperiment(deps.clickhouse, { metric, scope, weights: weightsOf(variants, baseline), effect })
  })

  routes.get('/holdouts/:holdout', {
    summary: 'Measure a holdout', answer: object({ flags: { type: 'array', items: { type: 'string' } }, result: { $ref: 'MetricResults#' } }),
    params: optional({ holdout: { type: 'string', maxLength: 100 } }),
    description: 'Compares people in the holdout with everyone else who was evaluated for a flag with that holdout: the combined effect of these flags.',
    query: optional({
      metric: { type: 'string', maxLength: 100_000, description: 'JSON, in a form that filters accepts.' },
      from: { type: 'string', format: 'date-time', description: 'Default: 28 days ago.' },
      to: { type: 'string', format: 'date-time', description: 'Now at the latest, which is the default.' }
    })
  }, async ({ params: { holdout = '' }, query }, access) => {
    const { projectId } = access
    const given = parseMetric(query.metric ?? '{}')
    const read = readMetric('metric', given)
    if (read === undefined) throw invalidField('metric', 'metric must name its events.', 'required')
    const metric = askAs(access, given, read, 'metric')
    const flags = await deps.sql<{ key: string, percentage: number }[]>`
      SELECT key, coalesce(filters->'holdout'->>'exclusion_percentage', filters->'holdout_groups'->0->>'rollout_percentage')::float8 AS percentage
      FROM feature_flags WHERE project_id = ${projectId} AND NOT deleted AND (filters->'holdout'->>'id' = ${holdout}
        OR filters->'holdout_groups'->0->>'variant' = ${`holdout-${holdout}`}) ORDER BY key`
    const { percentage } = orNotFound(flags[0])
    if (flags.some((flag) => flag.percentage !== percentage)) throw invalidField('holdout', 'The flags of the holdout use different shares, so their people cannot be compared.')
    const [project] = await deps.sql<{ timezone: string }[]>`SELECT timezone FROM projects WHERE id = ${projectId}`
    // Each day of the series is computed, so the future would take minutes.
    const until = new Date(Math.min(parseIsoDateTime(query.to)?.getTime() ?? Infinity, deps.now()))
    const since = parseIsoDateTime(query.from) ?? new Date(deps.now() - 28 * DAY_MS)
    if (since >= until) throw invalidField('to', 'to must be after from.')
    const shares = { holdout: percentage, launched: 100 - percentage }
    const results = await computeResults(deps.clickhouse, {
      effect: DEFAULT_EFFECT,
      plannedSize: undefined,
      metric,
      baseline: 'holdout',
      variants: Object.entries(shares).map(([key, share]) => ({ key, rollout_percentage: share })),
      scope: {
        projectId, flagKey: '', variants: Object.keys(shares), groupType: null, timezone: project?.timezone ?? 'UTC', since, until,
        exposure: {
          where: `event = '$feature_flag_called' AND feature_flag IN (${flags.map(({ key }) => quoteString(key)).join(', ')})`,
          variant: `if(feature_flag_response = ${quoteString(`holdout-${holdout}`)}, 'holdout', 'launched')`,
          isFirstSeen: false,
          lookback: 0
        }
      }
    })
    return { flags: flags.map(({ key }) => key), result: deps.describe(results) }
  })
}

function parseMetric (text: string): unknown {
  let metric: unknown
  try {
    metric = JSON.parse(text)
  } catch {
    throw invalidField('metric', 'metric must be JSON.')
  }
  refuseUnstorableValue(metric, ['metric'])
  return metric
}
