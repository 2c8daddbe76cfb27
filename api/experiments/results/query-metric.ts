import { readFileSync } from 'node:fs'
import path from 'node:path'
import { quoteString } from 'chdb-server/sql-lexer'
import { conditionSql } from '../../../engines/questions/question-sql.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { askRows } from '../../http/describe-clickhouse-error.ts'
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

/** The days of an experiment, in the project's time zone, as days since 1970. */
export interface DaySpan {
  first: number
  last: number
}

/** What was measured, by days since the first one of the experiment. */
export interface Measurement {
  days: DaySpan
  changes: DailyChange[]
  /** What all kinds but funnels have beside the exposures. */
  blocks: ValueBlock[]
}

/** Who was new on a day. */
export interface DailyChange {
  /** `$multiple` for people who saw several. */
  variant: string
  day: number
  /** People first exposed that day. */
  exposed: number
  /** People who reached each step of a funnel that day; empty for the other kinds. */
  steps: number[]
}

/** Values of people: how many, their sum, and their squared deviations from their mean. */
export interface Spread {
  people: number
  sum: number
  deviations: number
}

/** People whose value did not change for 2^level days, from day `block` * 2^level on. */
export interface ValueBlock extends Spread {
  variant: string
  level: number
  block: number
}

/** Expressions that queries share, by the name between braces. */
const EXPRESSIONS: Readonly<Record<string, string>> = {
  // Who is counted: the person of the event, merges followed, or one of its groups; empty when it has no such group.
  entity: "if({group_type:String} = '', toString(person_id), groups[{group_type:String}])",
  // Which events may count for the metric: not those of bots, and never the exposure itself.
  happened: `project_id = {project_id:UInt32}
            AND ({any_event:Bool} OR event IN {events:Array(String)})
            AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
            AND NOT is_bot
            AND NOT (event = '$feature_flag_called' AND feature_flag = {flag:String})`,
  // The value of the property `key` of an event as text, as feature flags compare it: a null is the text null, and only
  // an absent property is NULL.
  property_as_text: "if(JSONType(properties, key) = 'String', JSONExtractString(properties, key), nullIf(JSONExtractRaw(properties, key), ''))",
  // The value of the property as a number, numbers in texts included; NULL for everything else (NaN and infinity too),
  // and for numbers beyond 1e60, whose sums would no longer be exact.
  property_as_number: 'arrayMap(number -> if(abs(number) <= 1e60, number, NULL), arrayMap(key -> toFloat64OrNull({{property_as_text}}), [{property:String}]))[1]'
}

/** Where a query says which steps an event is. */
const STEPS = '{{steps}}'

/**
 * Which steps an event is: bit 0 for the first one, and so on. A step of any event is none that exposes to a flag:
 * SDKs send these by themselves.
 */
function stepsSql (steps: Metric['steps']): string {
  return `toUInt32(${steps.map(({ event, where }, index) => {
    const name = event === null ? "event != '$feature_flag_called'" : `event = ${quoteString(event)}`
    return `if(${[name, ...where.map(conditionSql)].join(' AND ')}, ${2 ** index}, 0)`
  }).join(' + ')})`
}

const FUNNEL = loadQuery('funnel-metric')
const VALUE = loadQuery('value-metric')

/**
 * `final`: an event counts once, whatever lies beyond the memory of the writer. Numbers arrive as numbers. After a
 * minute the person who waits has gone away.
 */
const SETTINGS = { final: 1, output_format_json_quote_64bit_integers: 0, max_execution_time: 60 } as const

/**
 * Measures one metric with one query.
 *
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
export async function queryMetric (clickhouse: ClickHouse, scope: MetricScope, metric: Metric): Promise<Measurement> {
  const days = { first: dayOf(scope.since, scope.timezone), last: dayOf(scope.until, scope.timezone) }
  const parameters = buildParameters(scope, metric, days)
  const query = (metric.kind === 'funnel' ? FUNNEL : VALUE).replace(STEPS, () => stepsSql(metric.steps))
  if (metric.kind === 'funnel') {
    const steps = await askRows<StepRow>(clickhouse, query, parameters, SETTINGS)
    return { days, changes: foldSteps(steps, metric.steps.length), blocks: [] }
  }
  const rows = await askRows<ValueBlock & { exposed: number }>(clickhouse, query, parameters, SETTINGS)
  return {
    days,
    changes: rows.filter(({ level }) => level === 0)
      .map(({ variant, block: day, exposed }) => ({ variant, day, exposed, steps: [] })),
    blocks: rows.filter(({ people }) => people > 0)
  }
}

const DAY_MS = 86_400_000

/** The day of an instant in a time zone, as days since 1970. */
function dayOf (instant: Date, timeZone: string): number {
  const day = new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(instant)
  return Date.parse(day) / DAY_MS
}

/** A day since 1970 as `YYYY-MM-DD`. */
export function formatDay (day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

function buildParameters (scope: MetricScope, metric: Metric, days: DaySpan): Record<string, unknown> {
  const events = metric.steps.flatMap(({ event }) => event ?? [])
  const dayCount = days.last - days.first + 1
  return {
    project_id: scope.projectId,
    flag: scope.flagKey,
    variants: scope.variants,
    group_type: scope.groupType ?? '',
    since: formatInstant(scope.since),
    until: formatInstant(scope.until),
    timezone: scope.timezone,
    first_day: formatDay(days.first),
    days: dayCount,
    levels: dayCount.toString(2).length,
    step_count: metric.steps.length,
    kind: metric.kind,
    property: metric.property ?? '',
    window_seconds: metric.windowSeconds,
    any_event: metric.steps.some(({ event }) => event === null),
    events
  }
}

/** As ClickHouse reads a DateTime64(3, 'UTC') parameter. */
export function formatInstant (instant: Date): string {
  return instant.toISOString().replace('T', ' ').replace('Z', '')
}

interface StepRow { variant: string, day: number, step: number, people: number }

function foldSteps (rows: StepRow[], stepCount: number): DailyChange[] {
  const days = Map.groupBy(rows, ({ variant, day }) => `${day} ${variant}`)
  return [...days.values()].map((group) => {
    const people = (step: number): number => group.find((row) => row.step === step)?.people ?? 0
    const steps = Array.from({ length: stepCount }, (_, index) => people(index + 1))
    const { variant = '', day = 0 } = group[0] ?? {}
    return { variant, day, exposed: people(0), steps }
  })
}

/** Reads a query of this folder, with its parts. */
export function loadQuery (name: string): string {
  return withParts(readFileSync(path.join(import.meta.dirname, `${name}.sql`), 'utf8'))
}

/**
 * Puts in the parts that queries share: `{{entity}}` is an expression, `{{exposures}}` the file `exposures.sql`.
 *
 * Parts are text of ours only. What a client says reaches ClickHouse as typed parameters (`{flag:String}`), or quoted
 * in the steps, which are put in later.
 */
export function withParts (query: string): string {
  return query.replaceAll(/\{\{(\w+)\}\}/g, (whole, part: string) => {
    if (whole === STEPS) return STEPS
    const expression = EXPRESSIONS[part]
    if (expression !== undefined) return withParts(expression)
    // The comment on top describes the file, and would end up in the middle of a line.
    return loadQuery(part.replaceAll('_', '-')).replace(/^(?:--[^\n]*\n)+/, '').trimEnd()
  })
}
