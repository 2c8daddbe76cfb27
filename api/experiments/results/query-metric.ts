import { readFileSync } from 'node:fs'
import path from 'node:path'
import { quoteString } from 'chdb-server/sql-lexer'
import { conditionSql } from '../../../engines/questions/question-sql.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { askRows } from '../../http/describe-clickhouse-error.ts'
import { pairsOf, type Moments } from '../../../engines/statistics/moments.ts'
import { normalQuantile } from '../../../engines/statistics/distributions.ts'
import { capsSql, columnsOf } from './metric-columns.ts'
import type { Metric } from './read-metric.ts'

/** Where and when to look for exposures and events. */
export interface MetricScope {
  projectId: number
  flagKey: string
  /** Those whose people are compared; events of others expose nobody. */
  variants: readonly string[]
  exposure: Exposure
  /** Count groups of this type instead of persons; null for persons. */
  groupType: string | null
  since: Date
  until: Date
  /** IANA name: days of the series begin at its midnight. */
  timezone: string
}

/** Which events expose people, in SQL. */
export interface Exposure {
  /** Whether an event does. */
  where: string
  /** The variant that it shows. */
  variant: string
  /** People who saw several variants count for the first one, instead of being left out. */
  isFirstSeen: boolean
  /** How long before the exposure the covariates of CUPED reach, in seconds; 0 without CUPED. */
  lookback: number
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
  /** Of a metric that is a quantile, instead of blocks. */
  quantiles: QuantileRow[]
  /** What values were cut to, lower and upper bound: the value, the denominator, and both before; null: no bound. */
  caps: (number | null)[]
}

/** A quantile of the people of a variant, with its standard error. */
interface QuantileRow extends Shown { size: number, people: number, sum: number, value: number, error: number }

interface Shown { variant: string, exposed: number, several: number }

/** Who was new on a day. */
export interface DailyChange {
  /** `$multiple` for people who saw several. */
  variant: string
  day: number
  /** People first exposed that day. */
  exposed: number
  /** Of these, who saw several variants. */
  sawSeveral: number
  /** People who reached each step of a funnel that day; empty for the other kinds. */
  steps: number[]
  /** Of a funnel with CUPED: who had taken all steps before, of the exposed and of those who took the last step. */
  had: { exposed: number, converted: number }
}

/** People whose values did not change for 2^level days, from day `block` * 2^level on. */
export interface ValueBlock extends Moments {
  variant: string
  level: number
  block: number
}

/** Expressions that queries share, by the name between braces. */
const EXPRESSIONS: Readonly<Record<string, string>> = {
  // Which events may count for the metric: not those of bots, and never the exposure itself.
  happened: `project_id = {project_id:UInt32}
            AND ({any_event:Bool} OR event IN {events:Array(String)})
            AND timestamp >= {since:DateTime64(3, 'UTC')} - toIntervalSecond({lookback:UInt32}) AND timestamp < {until:DateTime64(3, 'UTC')}
            AND NOT is_bot
            AND NOT (event = '$feature_flag_called' AND feature_flag = {flag:String})`,
  // Which of them count for a person, also of those who have none, or saw several variants: after the exposure within
  // the window, and before it as far as covariates reach.
  counts: `steps != 0 AND variant != 0 AND if(timestamp >= exposed_at,
                {window_seconds:UInt32} = 0 OR timestamp <= exposed_at + toIntervalSecond({window_seconds:UInt32}),
                timestamp >= exposed_at - toIntervalSecond({lookback:UInt32}))`,
  variant_name: "if(variant = 0, '$multiple', {variants:Array(String)}[variant])"
}

/** What depends on the metric and the experiment is put in last, all at once. */
const LATE = [
  'entity', 'steps', 'exposing', 'shown', 'number', 'below', 'whole', 'person_days', 'returns_in_time', 'caps', 'capped', 'changing', 'states', 'sums', 'products'
]

/**
 * A property of an event as a number, numbers in texts included; NULL for everything else (NaN and infinity too), and
 * for numbers beyond 1e60, whose sums would no longer be exact.
 *
 * @param parameter  Of the query, with the name of the property.
 */
export function numberSql (parameter: string): string {
  const [name, raw, read] = [`{${parameter}:String}`, `${parameter}_raw`, `${parameter}_read`]
  // A text begins with a quotation mark: each document is parsed once.
  return `if(abs(toFloat64OrNull(if(startsWith(JSONExtractRaw(properties, ${name}) AS ${raw}, '"'), JSONExtractString(properties, ${name}), ${raw})) AS ${read}) <= 1e60, ${read}, NULL)`
}

/**
 * Which steps an event is: bit 0 for the first one, and so on. A step of any event excludes exposures to flags:
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
const QUANTILE = loadQuery('quantile-metric')
const PERSON_DAYS = { retention: loadPart('retained-days'), other: loadPart('person-days') }

/**
 * `final`: an event counts once, whatever lies beyond the memory of the writer. Numbers arrive as numbers. After a
 * minute the person who waits has gone away.
 */
const SETTINGS = { final: 1, output_format_json_quote_64bit_integers: 0, max_execution_time: 60 } as const

/** What adds up whole numbers without rounding. */
type WholeType = 'toInt64' | 'toInt256'

/** Of the amounts of one person together: their sums fit into 64 bits, in any order. Beyond it, all are asked again. */
const LARGEST_NARROW = 2 ** 62

/** Measures one metric with one query. @throws {HttpError} 503 when ClickHouse is unavailable or too busy. */
export async function queryMetric (clickhouse: ClickHouse, scope: MetricScope, metric: Metric): Promise<Measurement> {
  const days = { first: dayOf(scope.since, scope.timezone), last: dayOf(scope.until, scope.timezone) }
  const parameters = buildParameters(scope, metric, days)
  const askWith = async <T>(query: string, whole: WholeType): Promise<T[]> =>
    await askRows<T>(clickhouse, fillIn(query, scope, metric, whole), parameters, SETTINGS)
  const ask = async <T extends { size: number }>(query: string): Promise<T[]> => {
    const rows = await askWith<T>(query, 'toInt64')
    return rows.some(({ size }) => size > LARGEST_NARROW) ? await askWith<T>(query, 'toInt256') : rows
  }
  const nothing = { days, blocks: [], quantiles: [], caps: [] }
  if (metric.kind === 'funnel') return { ...nothing, changes: foldSteps(await askWith<StepRow>(FUNNEL, 'toInt64'), metric.steps.length) }
  const toChange = (day: number, { variant, exposed, several }: Shown): DailyChange =>
    ({ variant, day, exposed, sawSeveral: several, steps: [], had: { exposed: 0, converted: 0 } })
  if (metric.quantile !== null) {
    const quantiles = await ask<QuantileRow>(QUANTILE)
    return { ...nothing, quantiles, changes: quantiles.map((row) => toChange(days.last - days.first, row)) }
  }
  const rows = await ask<ValueBlock & { several: number, size: number, caps: (number | null)[] }>(VALUE)
  const { exposures = [], blocks = [] } = Object.groupBy(rows, ({ level }) => level === -1 ? 'exposures' : 'blocks')
  const changes = exposures.map((row) => toChange(row.block, { ...row, exposed: row.people }))
  return { ...nothing, changes, blocks, caps: rows[0]?.caps ?? [] }
}

/** Puts in what depends on the metric; what people wrote stands there as quoted text, and is not searched again. */
function fillIn (query: string, { exposure, groupType }: MetricScope, metric: Metric, whole: WholeType): string {
  const columns = columnsOf(metric, exposure.lookback)
  const pairs = pairsOf(columns.length).map(([i, j]) => [columns[i]?.name, columns[j]?.name])
  const texts: Record<string, string> = {
    // Who is counted: the person of the event, merges followed, or one of its groups; empty when it has no such group.
    entity: groupType === null ? 'person_id' : 'groups[{group_type:String}]',
    steps: stepsSql(metric.steps),
    exposing: exposure.where,
    shown: exposure.variant,
    returns_in_time: returnsSql(metric),
    whole,
    number: metric.property === null ? '1.' : numberSql('property'),
    below: !metric.isRatio ? '0' : metric.belowProperty === null ? '1.' : numberSql('below_property'),
    changing: metric.isRatio ? 'arrayPushFront(ys, 0) AS own, arrayPushFront(ds, 0) AS own_below' : 'arrayPushFront(ys, 0) AS own',
    capped: columns.filter(({ source }) => source !== null).map(({ name, source, caps }, at) => caps === null
      ? `${source} AS ${name}`
      : `greatest(caps[${2 * at + 1}], least(caps[${2 * at + 2}], ${source})) AS ${name}`).join(', '),
    caps: capsSql(columns),
    states: [
      ...columns.map(({ name }) => `sumState(${name}) AS sum_${name}`),
      ...pairs.map(([name, other]) => `covarPopStableState(${name}, ${other}) AS product_${name}_${other}`)
    ].join(', '),
    sums: `[${columns.map(({ name }) => `sumMerge(sum_${name})`).join(', ')}]`,
    products: `[${pairs.map(([name, other]) => `covarPopStableMerge(product_${name}_${other}) * people`).join(', ')}]`
  }
  const days = metric.kind === 'retention' ? PERSON_DAYS.retention : PERSON_DAYS.other
  return query.replace('{{person_days}}', () => days).replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => texts[name] ?? '')
}

const DAY_MS = 86_400_000

/** Of the bounds of a quantile: at 95 %. */
const QUANTILE_Z = normalQuantile(0.975)

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
    is_mean: metric.kind === 'mean',
    property: metric.property ?? '',
    below_property: metric.belowProperty ?? '',
    window_seconds: metric.windowSeconds,
    lookback: scope.exposure.lookback,
    first_seen: scope.exposure.isFirstSeen,
    last_seen: metric.retention?.isLastSeen ?? false,
    return_from: metric.retention?.from ?? 0,
    return_to: metric.retention?.to ?? 0,
    quantile: metric.quantile ?? 0,
    z: QUANTILE_Z,
    any_event: metric.steps.some(({ event }) => event === null),
    events
  }
}

/** As ClickHouse reads a DateTime64(3, 'UTC') parameter. */
export function formatInstant (instant: Date): string {
  return instant.toISOString().replace('T', ' ').replace('Z', '')
}

interface StepRow { variant: string, day: number, step: number, had: number, people: number, saw_several: number }

function foldSteps (rows: StepRow[], stepCount: number): DailyChange[] {
  const days = Map.groupBy(rows, ({ variant, day }) => `${day} ${variant}`)
  return [...days.values()].map((group) => {
    const people = (step: number, had: number): number =>
      group.find((row) => row.step === step && row.had === had)?.people ?? 0
    const steps = Array.from({ length: stepCount }, (_, index) => people(index + 1, 0) + people(index + 1, 1))
    const { variant = '', day = 0 } = group[0] ?? {}
    const sawSeveral = group.reduce((total, row) => total + row.saw_several, 0)
    const had = { exposed: people(0, 1), converted: people(stepCount, 1) }
    return { variant, day, exposed: people(0, 0), sawSeveral, steps, had }
  })
}

/** Whether the event at `at` comes in the window after `started`; days and hours are those of the clock. */
function returnsSql ({ retention }: Metric): string {
  if (retention === null) return '1'
  const { unit } = retention
  if (unit === 'day' || unit === 'hour') {
    return `dateDiff('${unit}', started, at, {timezone:String}) BETWEEN {return_from:UInt32} AND {return_to:UInt32}`
  }
  const interval = `toInterval${unit[0]?.toUpperCase() ?? ''}${unit.slice(1)}`
  return `at >= started + ${interval}({return_from:UInt32}) AND at <= started + ${interval}({return_to:UInt32})`
}

/** Reads a query of this folder, with its parts. */
function loadQuery (name: string): string {
  return withParts(readFileSync(path.join(import.meta.dirname, `${name}.sql`), 'utf8'))
}

/**
 * Puts in the parts that queries share: `{{entity}}` is an expression, `{{exposures}}` the file `exposures.sql`.
 *
 * Parts are text of ours only. What a client says reaches ClickHouse as typed parameters (`{flag:String}`), or quoted
 * in the steps, which are put in later.
 */
function withParts (query: string): string {
  return query.replaceAll(/\{\{(\w+)\}\}/g, (whole, part: string) => {
    if (LATE.includes(part)) return whole
    const expression = EXPRESSIONS[part]
    return expression === undefined ? loadPart(part.replaceAll('_', '-')) : withParts(expression)
  })
}

/** A file within a query, without the comment on top, which would end up in the middle of a line. */
function loadPart (name: string): string {
  return loadQuery(name).replace(/^(?:--[^\n]*\n)+/, '').trimEnd()
}
