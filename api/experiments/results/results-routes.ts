import { isDeepStrictEqual } from 'node:util'
import { HttpError, invalidField } from '../../../engines/errors.ts'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type ClickHouse, readCompleteThrough } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { readKeptFrom } from '../../../platform/retention-rules.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { findRemovedWarnings } from './metric-warnings.ts'
import { optional, toSnakeCase } from '../../http/json-schema.ts'
import { parseInteger } from '../../http/request-values.ts'
import { routesOf } from '../../http/routes.ts'
import { experimentIdParams } from '../experiment-routes.ts'
import { findExperiment } from '../experiment.ts'
import { findKeptFlag, listKeptChanges } from '../experiment-versions.ts'
import { variantsOfFlag } from '../../../engines/flags/flag-definition.ts'
import { computeResults, findScope, type LaunchedExperiment, type MetricResults, requireLaunched } from './compute-results.ts'
import { correctFamily } from './correct-family.ts'
import { type Metric, readMetric, readPrimaryOnly, readSecondaryMetrics } from './read-metric.ts'
import { metricResultsSchema, resultsSchema, secondaryResultsSchema } from './metric-results.ts'
import { planRoutes } from './plan-routes.ts'
import { requiresFlagRoute } from './requires-flag-implementation.ts'

interface ResultsDeps { sql: Sql, clickhouse: ClickHouse, now: () => number }

/** Young enough for people who watch a launch, old enough that a page full of dashboards costs one query. */
const TTL_MS = 300_000
const MAX_RESULTS = 1000

const refreshProperties = { refresh: { type: 'boolean', default: false, description: 'Recompute instead of returning the cached results.' } } as const

/** Results of experiments (docs/reference/contract/service.md 4.1): numbers of ClickHouse, and what they mean. */
export async function resultsRoutes (app: FastifyInstance, deps: ResultsDeps): Promise<void> {
  const cache = createResultsCache(deps.now)
  app.addSchema(metricResultsSchema)
  // Named one by one: the options of this scope also hold its prefix.
  await app.register(requiresFlagRoute, { sql: deps.sql, clickhouse: deps.clickhouse })
  await app.register(planRoutes, { sql: deps.sql, clickhouse: deps.clickhouse, now: deps.now, describe })

  async function findLaunched (projectId: number, id: number): Promise<LaunchedExperiment> {
    return requireLaunched(await findExperiment(deps.sql, projectId, id), new Date(deps.now()))
  }

  async function measure (
    projectId: number, experiment: LaunchedExperiment, metric: Metric, refresh: boolean
  ): Promise<Refreshed> {
    const found = await findScope(deps.sql, projectId, experiment, new Date(deps.now()))
    const { scope, variants } = found
    // What is measured, without the moment: a changed experiment is another key.
    const { id, parameters, end_date: end } = experiment
    const key = JSON.stringify([id, parameters, end, { ...scope, until: null }, variants, metric])
    return await cache(key, refresh, async () => {
      // Before anything is counted: what was complete then is in the numbers. Without ClickHouse, those say so.
      const completeThrough = await readCompleteThrough(deps.clickhouse).catch(() => null)
      const results = await computeResults(deps.clickhouse, { ...found, metric })
      results.warnings.push(...findRemovedWarnings(scope, await readKeptFrom(deps, projectId, deps.now())))
      return { results, completeThrough }
    })
  }

  const routes = routesOf(app, { tag: 'experiments', object: 'experiment' })

  routes.get('/:id/results', {
    summary: 'Retrieve the results of an experiment', params: experimentIdParams,
    description: 'The experiment with the results of its primary metric (filters).',
    query: optional(refreshProperties), answer: resultsSchema
  }, async (request, { projectId }, reply) => {
    const experiment = await findLaunched(projectId, request.params.id)
    const [metric] = listPrimary(experiment)
    if (metric === undefined) throw invalidField('filters', 'Experiment has no target metric', 'required')
    const [refreshed] = await measureAll(experiment, [metric], reply, async (each) =>
      await measure(projectId, experiment, each, request.query.refresh))
    if (refreshed === undefined) throw new RangeError('no result of the primary metric')
    const { value, lastRefresh, isCached } = refreshed
    const { results, completeThrough } = value
    return {
      ...experiment, last_refresh: lastRefresh, is_cached: isCached, complete_through: completeThrough,
      result: describe(results), measured: await describeMeasured(deps.sql, experiment)
    }
  })

  routes.get('/:id/secondary_results', {
    summary: 'Retrieve the results of the secondary metrics of an experiment', params: experimentIdParams,
    description: 'P-values of metrics with the role primary are corrected together with that of filters; those of all other metrics are uncorrected.',
    query: optional({ ...refreshProperties, id: { type: 'string', description: 'Index of the metric, from 0. Default: all.' } }),
    answer: secondaryResultsSchema
  }, async (request, { projectId }, reply) => {
    const experiment = await findLaunched(projectId, request.params.id)
    const metrics = chooseMetrics(readSecondaryMetrics(experiment.secondary_metrics), request.query.id)
    const results = await measureAll(experiment, metrics, reply, async (each) =>
      await measure(projectId, experiment, each, request.query.refresh))
    const one = request.query.id !== undefined
    const values = results.map(({ value: { results: { variants } } }) =>
      Object.fromEntries(variants.map(({ key, mean }) => [key, mean])))
    const analyses = results.map(({ value }) => describe(value.results))
    return {
      ...experiment,
      last_refresh: new Date(Math.min(...results.map(({ lastRefresh }) => lastRefresh.getTime()))),
      is_cached: results.every(({ isCached }) => isCached),
      complete_through: earliest(results.map(({ value }) => value.completeThrough)),
      result: one ? values[0] : values,
      analysis: one ? analyses[0] : analyses,
      measured: await describeMeasured(deps.sql, experiment)
    }
  })
}

/** Measures these, and with a primary one all others that it is corrected together with, until the client leaves. */
async function measureAll (
  experiment: LaunchedExperiment, metrics: Metric[], { raw }: FastifyReply,
  measure: (metric: Metric) => Promise<Refreshed>
): Promise<Refreshed[]> {
  const primary = listPrimary(experiment)
  const measured = new Map<string, Refreshed>()
  // One after the other: a person waits for them, and the server has others to serve.
  for (const metric of [...metrics, ...metrics.some(({ role }) => role === 'primary') ? primary : []]) {
    const key = JSON.stringify(metric)
    if (raw.destroyed) throw new HttpError(408, 'invalid_request', 'request_timeout', 'The client has left.')
    if (!measured.has(key)) measured.set(key, await measure(metric))
  }
  const resultsOf = (metric: Metric): Refreshed[] => {
    const found = measured.get(JSON.stringify(metric))
    return found === undefined ? [] : [found]
  }
  const corrected = correctFamily(primary.flatMap(resultsOf).map(({ value }) => value.results))
  return metrics.flatMap((metric) => resultsOf(metric).map((each) => {
    const results = metric.role === 'primary' ? corrected[primary.findIndex((other) => isDeepStrictEqual(other, metric))] : undefined
    return results === undefined ? each : { ...each, value: { ...each.value, results } }
  }))
}

/** `filters`, and the further metrics that are said to be primary. */
function listPrimary ({ filters, secondary_metrics: secondary }: LaunchedExperiment): Metric[] {
  const first = readMetric('filters', filters)
  if (first === undefined) return []
  if (first.role !== null && first.role !== 'primary') throw invalidField('filters__role', 'The metric in filters is primary: other roles are for secondary_metrics.')
  return [{ ...first, role: 'primary' }, ...readPrimaryOnly(secondary)]
}

function chooseMetrics (metrics: Metric[], id: string | undefined): Metric[] {
  if (metrics.length === 0) throw invalidField('secondary_metrics', 'Experiment has no secondary metrics', 'required')
  if (id === undefined) return metrics
  const index = parseInteger(id)
  if (index === undefined) throw invalidField('id', 'Secondary metric id must be an integer')
  const metric = metrics[index]
  if (metric === undefined) throw invalidField('id', 'Invalid metric ID')
  return [metric]
}

/** What the results are computed from, whatever became of the flag since. */
async function describeMeasured (sql: Sql, { id, feature_flag: flag }: LaunchedExperiment): Promise<object> {
  const [kept = flag, changes] = await Promise.all([findKeptFlag(sql, id), listKeptChanges(sql, id)])
  return { feature_flag_key: kept.key, feature_flag_variants: variantsOfFlag(kept.filters), changes }
}

/** In the names of the API, with the maps by variant that the reference's clients read. */
function describe (results: MetricResults): object {
  return {
    ...toSnakeCase(results),
    probability: Object.fromEntries(results.variants.map(({ key, probability }) => [key, probability])),
    credible_intervals: Object.fromEntries(results.variants.map(({ key, credibleInterval }) => [key, credibleInterval]))
  }
}

/** Null when one of them is not known. */
function earliest (moments: readonly (Date | null)[]): Date | null {
  const known = moments.filter((moment) => moment !== null)
  return known.length < moments.length ? null : new Date(Math.min(...known.map((moment) => moment.getTime())))
}

interface Measured {
  results: MetricResults
  /** Every acknowledged event received before is in the results; null while that is not known. */
  completeThrough: Date | null
}

/** With the moment it was computed at. */
interface Refreshed {
  value: Measured
  lastRefresh: Date
  isCached: boolean
}

/**
 * Remembers what is costly to compute, in this process. Who asks while it is being computed waits for the same
 * answer; a failure is not remembered.
 */
function createResultsCache (now: () => number) {
  const entries = new Map<string, { value: Promise<Measured>, at: number }>()

  /** @param refresh  Compute it in any case. */
  return async (key: string, refresh: boolean, work: () => Promise<Measured>): Promise<Refreshed> => {
    const known = entries.get(key)
    const isCached = !refresh && known !== undefined && now() - known.at < TTL_MS
    const entry = isCached ? known : { value: work(), at: now() }
    if (!isCached) {
      entries.delete(key)
      entries.set(key, entry)
      entry.value.catch(() => { if (entries.get(key) === entry) entries.delete(key) })
      const [oldest] = entries.keys()
      if (entries.size > MAX_RESULTS && oldest !== undefined) entries.delete(oldest)
    }
    return { value: await entry.value, lastRefresh: new Date(entry.at), isCached }
  }
}
