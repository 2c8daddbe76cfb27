import { accumulateDays } from '../../api/experiments/results/daily-series.ts'
import { describeExposure } from '../../api/experiments/results/describe-exposure.ts'
import { type MetricScope, queryMetric } from '../../api/experiments/results/query-metric.ts'
import { readMetric } from '../../api/experiments/results/read-metric.ts'
import { fillBeside, FILLED_PROJECT, SIDE } from '../load/fill-table.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Question } from '../question.ts'

const DAY = 86_400_000
const ROWS = 40_000_000
const EVENTS_PER_PERSON = 100

/** A sum by one event, in all the ways that it can be asked for. */
const METRICS: Record<string, { fields: object, lookbackDays: number }> = {
  funnel: { fields: { kind: 'funnel', event: 'order paid' }, lookbackDays: 0 },
  sum: { fields: { kind: 'sum', event: 'order paid', property: 'amount' }, lookbackDays: 0 },
  'sum with CUPED': { fields: { kind: 'sum', event: 'order paid', property: 'amount' }, lookbackDays: 14 },
  'sum with CUPED, winsorized': { fields: { kind: 'sum', event: 'order paid', property: 'amount', upper_bound_percentile: 0.99 }, lookbackDays: 14 },
  'ratio with CUPED': { fields: { kind: 'ratio', numerator: { event: 'order paid', property: 'amount' }, denominator: { event: 'order paid' } }, lookbackDays: 14 },
  retention: { fields: { kind: 'retention', start_event: { event: 'order paid' }, completion_event: { event: 'order paid' } }, lookbackDays: 0 },
  median: { fields: { kind: 'sum', event: 'order paid', property: 'amount', quantile: 0.5 }, lookbackDays: 0 }
}

/** How long the results of a large experiment take: 400,000 people of 30 days, each with about 20 orders. */
export const experiment: Question = {
  name: 'experiment',
  asks: 'how long a metric of an experiment takes over 40 million events of 400,000 people (--events; a million with --quick)',
  isLong: true,
  async answer ({ stack, quick, events: rows = quick ? 1_000_000 : ROWS }) {
    const people = rows / EVENTS_PER_PERSON
    await fillBeside(stack, rows, fillFrom(people))
    const seconds = await measureMetrics(stack.clickhouse, people)
    return Object.entries(seconds).map(([name, value]) => ({ name, value, unit: 's', ...!quick && { target: { atMost: 5 } } }))
  }
}

/** Seconds by the name of the metric. */
async function measureMetrics (clickhouse: ClickHouse, people: number): Promise<Record<string, number>> {
  const seconds: Record<string, number> = {}
  const now = Date.now()
  for (const [name, { fields, lookbackDays }] of Object.entries(METRICS)) {
    const metric = readMetric('filters', { metric: fields })
    if (metric === undefined) throw new Error('no metric')
    const keys = ['control', 'test']
    const scope: MetricScope = {
      projectId: FILLED_PROJECT, flagKey: 'checkout', variants: keys, groupType: null, timezone: 'UTC',
      exposure: { ...describeExposure(null, 'checkout', FILLED_PROJECT), isFirstSeen: false, lookback: lookbackDays * 86_400 },
      since: new Date(now - 30 * DAY), until: new Date(now)
    }
    const startedAt = performance.now()
    const measurement = await queryMetric(clickhouse, scope, metric)
    const states = accumulateDays(metric, measurement, { keys, lookback: lookbackDays * 86_400 })
    seconds[name] = (performance.now() - startedAt) / 1000
    const exposed = states.at(-1)?.variants.reduce((total, variant) => total + variant.exposed, 0)
    if (exposed !== people) throw new Error(`${name}: ${exposed} of ${people} people`)
  }
  return seconds
}

/**
 * Everybody has an event each 0.6 days of the last 60, in the order of arrival: one of those of the last 29 days is the
 * exposure, a fifth are orders, the others are views.
 */
const fillFrom = (people: number): string => `
  INSERT INTO ${SIDE} (project_id, person_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties, feature_flag, feature_flag_response)
  WITH number % ${people} AS person, intDiv(number, ${people}) AS round, round = 51 + cityHash64(person, 2) % 48 AS is_exposed,
       now64(3) - toIntervalMillisecond(60000 + toInt64((1 - number / ${people * EVENTS_PER_PERSON}) * 60 * 86400000)) AS time
  SELECT {project:UInt32}, reinterpretAsUUID(sipHash128(person)), generateUUIDv4(number),
         multiIf(is_exposed, '$feature_flag_called', cityHash64(number, 3) % 5 = 0, 'order paid', '$pageview'),
         concat('person-', toString(person)), time, time, time,
         concat('{"plan":"free","amount":', toString(cityHash64(number, 5) % 100000 / 100 + person % 100), ',"$browser":"Chrome"}'),
         if(is_exposed, 'checkout', ''), if(is_exposed, if(cityHash64(person) % 2 = 0, 'control', 'test'), '')
  FROM numbers({from:UInt64}, {step:UInt64})`
