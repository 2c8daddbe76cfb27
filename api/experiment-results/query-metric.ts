import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from '../../platform/clickhouse/describe-clickhouse-error.ts'
import type { Metric } from './read-metric.ts'

/** Where and when to look for exposures and events. */
export interface MetricScope {
  projectId: number
  flagKey: string
  variants: readonly string[]
  /** Count groups of this type instead of persons; null for persons. */
  groupType: string | null
  since: Date
  until: Date
  /** IANA name: days of the series begin at its midnight. */
  timezone: string
}

/** What changed for a variant on a day; the sums of all days are those of the whole experiment. */
export interface DailyChange {
  /** `$multiple` for people who saw several. */
  variant: string
  /** `YYYY-MM-DD`. */
  day: string
  /** People first exposed that day. */
  exposed: number
  /** People whose value was first known that day; equal to `exposed` for all kinds but `mean`. */
  measured: number
  /** Change of the sum of the values per person. */
  sum: number
  sumOfSquares: number
  /** People who reached each step of a funnel that day; empty for the other kinds. */
  steps: number[]
}

const FUNNEL = loadQuery('funnel-metric')
const VALUE = loadQuery('value-metric')

/** Longer, and the person who waits has gone away; the server stops the query itself. */
const MAX_SECONDS = 60

/**
 * Measures one metric with one query.
 *
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
export async function queryMetric (clickhouse: ClickHouse, scope: MetricScope, metric: Metric): Promise<DailyChange[]> {
  const parameters = buildParameters(scope, metric)
  try {
    const result = await clickhouse.query({
      query: metric.kind === 'funnel' ? FUNNEL : VALUE,
      query_params: parameters,
      format: 'JSONEachRow',
      // final: an event counts once, whatever lies beyond the memory of the writer. Numbers arrive as numbers.
      clickhouse_settings: { final: 1, output_format_json_quote_64bit_integers: 0, max_execution_time: MAX_SECONDS }
    })
    return metric.kind === 'funnel'
      ? foldSteps(await result.json<StepRow>(), metric.steps.length)
      : (await result.json<ValueRow>()).map((row) => readValueRow(metric, row))
  } catch (error) {
    throw describeClickHouseError(error)
  }
}

function buildParameters (scope: MetricScope, metric: Metric): Record<string, unknown> {
  const conditions = metric.steps.flatMap(({ where }, index) =>
    where.map((condition) => ({ ...condition, step: index + 1 })))
  const events = metric.steps.flatMap(({ event }) => event ?? [])
  return {
    project_id: scope.projectId,
    flag: scope.flagKey,
    variants: scope.variants,
    group_type: scope.groupType ?? '',
    since: formatInstant(scope.since),
    until: formatInstant(scope.until),
    timezone: scope.timezone,
    kind: metric.kind,
    property: metric.property ?? '',
    window_seconds: metric.windowSeconds,
    any_event: metric.steps.some(({ event }) => event === null),
    events,
    step_events: metric.steps.map(({ event }) => event ?? ''),
    filter_steps: conditions.map(({ step }) => step),
    filter_keys: conditions.map(({ key }) => key),
    filter_operators: conditions.map(({ operator }) => operator),
    filter_values: conditions.map(({ values }) => values),
    filter_patterns: conditions.map(({ operator, values }) => operator.endsWith('regex') ? values[0] ?? '' : '')
  }
}

/** As ClickHouse reads a DateTime64(3, 'UTC') parameter. */
function formatInstant (instant: Date): string {
  return instant.toISOString().replace('T', ' ').replace('Z', '')
}

interface StepRow { variant: string, day: string, step: number, people: number }
interface ValueRow {
  variant: string, day: string, exposed: number, measured: number, sum: number, sum_of_squares: number
}

function foldSteps (rows: StepRow[], stepCount: number): DailyChange[] {
  const days = Map.groupBy(rows, ({ variant, day }) => `${day} ${variant}`)
  return [...days.values()].map((group) => {
    const people = (step: number): number => group.find((row) => row.step === step)?.people ?? 0
    const steps = Array.from({ length: stepCount }, (_, index) => people(index + 1))
    const converted = steps.at(-1) ?? 0
    const { variant, day } = group[0] as StepRow
    return { variant, day, exposed: people(0), measured: people(0), sum: converted, sumOfSquares: converted, steps }
  })
}

function readValueRow (metric: Metric, row: ValueRow): DailyChange {
  const { variant, day, exposed, measured, sum, sum_of_squares: sumOfSquares } = row
  // Who sent nothing counts with zero, but has no mean.
  return { variant, day, exposed, measured: metric.kind === 'mean' ? measured : exposed, sum, sumOfSquares, steps: [] }
}

/**
 * Reads a query of this folder and puts in the parts that queries share: `{{exposures}}` is the file `exposures.sql`.
 *
 * Parts are text of ours only. What a client says reaches ClickHouse as typed parameters (`{flag:String}`), never as
 * part of the query.
 */
export function loadQuery (name: string): string {
  const text = readFileSync(path.join(import.meta.dirname, `${name}.sql`), 'utf8')
  return text.replaceAll(/\{\{(\w+)\}\}/g, (_, part: string) => loadPart(part))
}

function loadPart (part: string): string {
  // The comment on top describes the file, and would end up in the middle of a line.
  return loadQuery(part.replaceAll('_', '-')).replace(/^(?:--[^\n]*\n)+/, '').trimEnd()
}
