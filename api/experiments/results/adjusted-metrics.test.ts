import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createRandom } from '../../../test/support/random.ts'
import { assertNear } from '../../../engines/statistics/testing/assert-near.ts'
import { readConditions } from '../../../engines/operators/property-conditions.ts'
import { adjustPlainly, type Person, quantilePlainly } from '../../../engines/statistics/testing/adjust-plainly.ts'
import { accumulateDays, type DayState, type VariantState } from './daily-series.ts'
import { lookbackOf } from './describe-adjustments.ts'
import { describeExposure } from './describe-exposure.ts'
import { type MetricScope, queryMetric } from './query-metric.ts'
import { type Metric, readMetric } from './read-metric.ts'

const DAY = 86_400_000
const START = Date.parse('2026-03-01T00:00:00Z')
const LOOKBACK = 14
const KEYS = ['control', 'test']

const { client } = await createTestClickHouse(t)

interface Happening { id: string, event: string, at: number, amount?: number, shown?: string, plan?: string }

/** People who pay and look before and after they see a variant; every tenth has no past, or sees both variants. */
function invent (people: number, seed: number): Happening[] {
  const random = createRandom(seed)
  return Array.from({ length: people }, (_, person): Happening[] => {
    const id = `p${person}`
    const exposed = START + Math.floor(random() * 8 * DAY)
    const habit = random() * 6
    const plan = random() < 0.5 ? 'pro' : 'free'
    const shown = random() < 0.5 ? 'control' : 'test'
    const exposures: Happening[] = [{ id, event: '$feature_flag_called', at: exposed, shown, plan }]
    if (person % 10 === 3) exposures.push({ id, event: '$feature_flag_called', at: exposed + 5, shown: shown === 'test' ? 'control' : 'test', plan })
    if (person % 10 === 4) exposures.push({ id, event: '$feature_flag_called', at: exposed - 5, shown: 'other', plan })
    const from = person % 10 === 1 ? 0 : -20
    const events = Array.from({ length: Math.floor(habit * 4 * random()) }, (): Happening => ({
      id, event: random() < 0.5 ? 'paid' : 'seen', at: exposed + Math.floor((from + random() * (9 - from)) * DAY),
      amount: Math.ceil(random() ** 4 * 100_000 * (1 + habit) + 1) / 100
    }))
    return [...exposures, ...events]
  }).flat()
}

let projects = 0

async function plant (events: readonly Happening[], changes: Partial<MetricScope['exposure']> = {}): Promise<MetricScope> {
  const projectId = ++projects
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: events.map(({ id, event, at, amount, shown, plan }) => ({
      project_id: projectId, uuid: randomUUID(), event, distinct_id: id, timestamp: at, received_at: at,
      properties: JSON.stringify({ amount, plan, ...shown !== undefined && { '$feature/checkout': shown } }),
      ...shown !== undefined && { feature_flag: 'checkout', feature_flag_response: shown }
    }))
  })
  return {
    projectId, flagKey: 'checkout', variants: KEYS, groupType: null,
    exposure: { ...describeExposure(null, 'checkout', 1), isFirstSeen: false, lookback: LOOKBACK * 86_400, ...changes },
    since: new Date(START), until: new Date(START + 10 * DAY), timezone: 'UTC'
  }
}

function metric (fields: object): Metric {
  return readMetric('filters', { metric: fields })!
}

async function measure (scope: MetricScope, wanted: Metric): Promise<DayState[]> {
  const lookback = lookbackOf(scope, wanted)
  return accumulateDays(wanted, await queryMetric(client, scope, wanted), { keys: KEYS, lookback })
}

interface Rules { until?: number, isFirstSeen?: boolean, lookback?: number }

/** The rules once more, without SQL: each person with the values after and before the exposure. */
function model (
  events: readonly Happening[], valuesOf: (own: Happening[]) => number[] | null, rules: Rules = {}
): Person[] {
  const { until = START + 10 * DAY, isFirstSeen = false, lookback = LOOKBACK } = rules
  return [...Map.groupBy(events.filter(({ at }) => at < until), ({ id }) => id).values()].flatMap((own): Person[] => {
    const shown = own.filter(({ shown: key, at }) => key !== undefined && KEYS.includes(key) && at >= START)
      .sort((a, b) => a.at - b.at)
    const first = shown[0]
    if (first === undefined || (!isFirstSeen && shown.some((each) => each.shown !== first.shown))) return []
    const rest = own.filter(({ shown: key }) => key === undefined)
    const after = rest.filter(({ at }) => at >= first.at)
    const before = rest.filter(({ at }) => at < first.at && at >= first.at - lookback * DAY)
    const values = valuesOf(after)
    if (values === null) return []
    const past = valuesOf(before)
    return [{ variant: first.shown!, values, before: past ?? values.map(() => 0) }]
  })
}

const paid = (own: Happening[]): Happening[] => own.filter(({ event }) => event === 'paid')
const amounts = (own: Happening[]): number => paid(own).reduce((sum, { amount = 0 }) => sum + amount, 0)
const DAY_OF = (at: number): number => Math.floor(at / DAY)

/** Of who started: 1 or 0, and 1; of the others 0 and 0. */
function retained (own: Happening[], from: number, to: number, isLast = false): number[] {
  const starts = own.filter(({ event }) => event === 'seen').map(({ at }) => at).sort((a, b) => a - b)
  const started = isLast ? starts.at(-1) : starts[0]
  if (started === undefined) return [0, 0]
  const later = paid(own).filter(({ at }) => at >= started).map(({ at }) => DAY_OF(at) - DAY_OF(started))
  return [Number(later.some((days) => days >= from && days <= to)), 1]
}

const KINDS: Record<string, { fields: object, values: (own: Happening[]) => number[] | null }> = {
  count: { fields: { kind: 'count', event: 'paid' }, values: (own) => [paid(own).length] },
  sum: { fields: { kind: 'sum', event: 'paid', property: 'amount' }, values: (own) => [amounts(own)] },
  mean: { fields: { kind: 'mean', event: 'paid', property: 'amount' }, values: (own) => paid(own).length === 0 ? null : [amounts(own) / paid(own).length] },
  funnel: { fields: { kind: 'funnel', event: 'paid' }, values: (own) => [Math.min(1, paid(own).length)] },
  ratio: {
    fields: { kind: 'ratio', numerator: { event: 'paid', property: 'amount' }, denominator: { event: 'seen' } },
    values: (own) => [amounts(own), own.filter(({ event }) => event === 'seen').length]
  },
  retention: {
    fields: { kind: 'retention', start_event: { event: 'seen' }, completion_event: { event: 'paid' }, retention_window_start: 0, retention_window_end: 2 },
    values: (own) => retained(own, 0, 2)
  }
}

function assertSame (t: Test, found: VariantState[], people: Person[], isRatio: boolean, message: string): void {
  const expected = adjustPlainly(people, KEYS, isRatio)
  for (const [i, { key, adjusted }] of found.entries()) {
    assertNear(t, [adjusted!.mean, adjusted!.squaredError], [expected[i]!.mean, expected[i]!.squaredError], 1e-9, `${message}, ${key}`)
  }
}

t.test('CUPED of each kind of metric is the regression on what people did before, day by day', async (t) => {
  const events = invent(900, 7)
  const scope = await plant(events)
  for (const [name, { fields, values }] of Object.entries(KINDS)) {
    const wanted = metric(fields)
    const days = await measure(scope, wanted)
    for (const day of [6, 9]) {
      // Retention looks at the return day by day, too.
      const people = model(events, values, { until: START + (day + 1) * DAY })
      assertSame(t, days[day]!.variants, people, wanted.isRatio, `${name} on day ${day}`)
      const { variants, varianceReduction } = days[day]!
      t.ok(varianceReduction! > 0 && varianceReduction! < 1, `${name}: ${varianceReduction}`)
      if (name !== 'mean') t.equal(variants[0]!.moments.sums.at(-1), people.filter(({ variant, before }) => variant === 'control' && before.some((value) => value !== 0)).length)
    }
  }
})

t.test('a ratio without CUPED has the error of the delta method; retention as PostHog counts it', async (t) => {
  const events = invent(400, 8)
  const scope = await plant(events, { lookback: 0 })
  for (const name of ['ratio', 'retention']) {
    const { fields, values } = KINDS[name]!
    const days = await measure(scope, metric(fields))
    assertSame(t, days.at(-1)!.variants, model(events, values, { lookback: 0 }), true, name)
  }
  const last = metric({ ...KINDS['retention']!.fields, start_handling: 'last_seen', retention_window_start: 1, retention_window_end: 4 })
  assertSame(t, (await measure(scope, last)).at(-1)!.variants, model(events, (own) => retained(own, 1, 4, true), { lookback: 0 }), true, 'last seen')
})

t.test('a start is not its own return', async (t) => {
  const at = START + DAY
  const events = KEYS.flatMap((shown) => ['once', 'twice'].flatMap((name): Happening[] => {
    const id = `${shown} ${name}`
    const again = name === 'twice' ? [{ id, event: 'seen', at: at + 3_600_000 }] : []
    return [{ id, event: '$feature_flag_called', at: START, shown }, { id, event: 'seen', at }, ...again]
  }))
  const same = metric({ kind: 'retention', start_event: { event: 'seen' }, completion_event: { event: 'seen' }, retention_window_start: 0, retention_window_end: 0 })
  const [control] = (await measure(await plant(events, { lookback: 0 }), same)).at(-1)!.variants
  t.same(control!.moments.sums, [1, 2])
})

t.test('outliers are cut at percentiles of all variants together, zeros of people without events included', async (t) => {
  const events = invent(700, 9)
  const scope = await plant(events, { lookback: 0 })
  for (const [options, of] of [
    [{ upper_bound_percentile: 0.9 }, (values: number[]) => values],
    [{ lower_bound_percentile: 0.7, upper_bound_percentile: 0.95 }, (values: number[]) => values],
    [{ upper_bound_percentile: 0.9, ignore_zeros: true }, (values: number[]) => values.filter((value) => value !== 0)]
  ] as const) {
    const people = model(events, KINDS['sum']!.values, { lookback: 0 })
    const sorted = people.map(({ values }) => values[0]!).sort((a, b) => a - b)
    const among = of(sorted)
    const low = 'lower_bound_percentile' in options ? sorted[Math.floor(options.lower_bound_percentile * sorted.length)]! : -Infinity
    const high = among[Math.floor(options.upper_bound_percentile * among.length)]!
    if (low !== -Infinity) t.ok(low > 0, 'zeros are raised')
    const measurement = await queryMetric(client, scope, metric({ ...KINDS['sum']!.fields, ...options }))
    t.same(measurement.caps, [low === -Infinity ? null : low, high])
    const { variants } = accumulateDays(metric({ ...KINDS['sum']!.fields, ...options }), measurement, { keys: KEYS, lookback: 0 }).at(-1)!
    for (const { key, sum, squaredDeviations, exposed } of variants) {
      const own = people.filter(({ variant }) => variant === key)
      const cut = own.map(({ values }) => Math.min(Math.max(values[0]!, low), high))
      const total = cut.reduce((both, one) => both + one, 0)
      t.equal(exposed, cut.length)
      assertNear(t, [sum, squaredDeviations], [total, cut.reduce((both, one) => both + (one - total / cut.length) ** 2, 0)], 1e-9, `${key} ${JSON.stringify(options)}`)
    }
  }
})

t.test('quantiles over people, with the order statistics around them', async (t) => {
  const events = invent(500, 10)
  const scope = await plant(events)
  for (const name of ['count', 'sum', 'mean']) {
    for (const quantile of [0.5, 0.9]) {
      const { fields, values } = KINDS[name]!
      const days = await measure(scope, metric({ ...fields, quantile }))
      const people = model(events, values)
      for (const { key, measured, adjusted } of days.at(-1)!.variants) {
        const own = people.filter(({ variant }) => variant === key).map((each) => each.values[0]!)
        t.equal(measured, own.length)
        const { mean, squaredError } = quantilePlainly(own, quantile)
        assertNear(t, [adjusted!.mean, adjusted!.squaredError], [mean, squaredError], 1e-9, `${name} ${quantile} of ${key}`)
      }
    }
  }
})

t.test('people in several variants count for the first, and another event exposes, where the experiment says so', async (t) => {
  const events = invent(400, 11)
  const count = metric(KINDS['count']!.fields)
  const first = await queryMetric(client, await plant(events, { isFirstSeen: true, lookback: 0 }), count)
  const states = accumulateDays(count, first, { keys: KEYS, lookback: 0 }).at(-1)!.variants
  const people = model(events, KINDS['count']!.values, { isFirstSeen: true })
  for (const { key, exposed, sum } of states) {
    const own = people.filter(({ variant }) => variant === key)
    t.match({ exposed, sum }, { exposed: own.length, sum: own.reduce((total, { values }) => total + values[0]!, 0) })
  }
  const both = new Set(events.filter(({ id }) => Number(id.slice(1)) % 10 === 3).map(({ id }) => id)).size
  t.equal(first.changes.reduce((total, { sawSeveral }) => total + sawSeveral, 0), both)

  const opened = events.map((each) => each.shown === undefined ? each : { ...each, event: 'opened' })
  const where = readConditions('where', [{ key: 'plan', value: 'pro' }])
  const scope = await plant(opened, { ...describeExposure({ event: 'opened', where }, 'checkout', 1), lookback: 0 })
  const custom = (await measure(scope, count)).at(-1)!.variants
  const pro = model(events.filter(({ shown, plan }) => shown === undefined || plan === 'pro'), KINDS['count']!.values)
  for (const { key, exposed, sum } of custom) {
    const own = pro.filter(({ variant }) => variant === key)
    t.match({ exposed, sum }, { exposed: own.length, sum: own.reduce((total, { values }) => total + values[0]!, 0) })
  }
})
