import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createRandom } from '../../../test/support/random.ts'
import { accumulateDays, type DayState, type VariantState } from './daily-series.ts'
import { describeExposure } from './describe-exposure.ts'
import { type MetricScope, queryMetric } from './query-metric.ts'
import { type Metric, readMetric } from './read-metric.ts'

const DAY = 86_400_000
const START = Date.parse('2026-03-01T00:00:00Z')

const { client } = await createTestClickHouse(t)

const VARIANTS = ['control', 'test', 'other']

interface TestEvent {
  /** Default: the project of the test. */
  project_id?: number
  event: string
  distinct_id: string
  timestamp: number
  properties: Record<string, unknown>
  groups?: Record<string, string>
  feature_flag?: string
  feature_flag_response?: string
  is_bot?: boolean
}

const ELSEWHERE = 4711
let projects = 0

/** Stores events in a project of their own, with an experiment of ten days. */
async function plant (events: TestEvent[]): Promise<MetricScope> {
  const projectId = ++projects
  const values = events.map((event) => ({
    project_id: projectId, uuid: randomUUID(), received_at: event.timestamp, ...event,
    properties: JSON.stringify(event.properties)
  }))
  await client.insert({ table: 'events', values, format: 'JSONEachRow' })
  return {
    projectId, flagKey: 'checkout', variants: VARIANTS, groupType: null,
    exposure: { ...describeExposure(null, 'checkout', 1), isFirstSeen: false, lookback: 0 },
    since: new Date(START), until: new Date(START + 10 * DAY), timezone: 'UTC'
  }
}

function exposure (distinctId: string, variant: string, at: number, groups = {}): TestEvent {
  return {
    event: '$feature_flag_called', distinct_id: distinctId, timestamp: at, properties: {}, groups,
    feature_flag: 'checkout', feature_flag_response: variant
  }
}

function happening (distinctId: string, event: string, at: number, properties = {}, groups = {}): TestEvent {
  return { event, distinct_id: distinctId, timestamp: at, properties, groups }
}

function metric (fields: object): Metric {
  const read = readMetric('filters', { metric: fields })
  if (read === undefined) throw new Error('no metric')
  return read
}

/** How things stood at the end of each day. */
async function measure (scope: MetricScope, wanted: Metric): Promise<{ days: DayState[], multiple: number }> {
  const measurement = await queryMetric(client, scope, wanted)
  return {
    days: accumulateDays(wanted, measurement, { keys: VARIANTS, lookback: scope.exposure.lookback }),
    multiple: measurement.changes.reduce((sum, { sawSeveral }) => sum + sawSeveral, 0)
  }
}

/** A variant at the end of the last day. */
function total ({ days }: { days: DayState[] }, variant: string): VariantState {
  return days.at(-1)!.variants.find(({ key }) => key === variant)!
}

t.test('counts only what follows the first exposure, inside the dates of the experiment', async (t) => {
  const events = [
    exposure('a', 'control', START + DAY), exposure('a', 'control', START + 5 * DAY),
    happening('a', 'paid', START + DAY - 1), happening('a', 'paid', START + DAY),
    exposure('late', 'test', START + 10 * DAY), exposure('early', 'test', START - 1),
    exposure('b', 'test', START + DAY), happening('b', 'paid', START + 10 * DAY),
    exposure('c', 'test', START), happening('c', 'paid', START + 10 * DAY - 1),
    exposure('off', 'false', START + DAY), happening('off', 'paid', START + 2 * DAY),
    { ...exposure('elsewhere', 'test', START), project_id: ELSEWHERE },
    { ...exposure('another flag', 'test', START), feature_flag: 'header' }
  ]
  const scope = await plant(events)

  const changes = await measure(scope, metric({ kind: 'count', event: 'paid' }))

  t.match(total(changes, 'control'), { exposed: 1, measured: 1, sum: 1, squaredDeviations: 0 })
  t.match(total(changes, 'test'), { exposed: 2, measured: 2, sum: 1, squaredDeviations: 0.5 })
})

t.test('leaves out people who saw several variants, and counts them', async (t) => {
  const events = [
    exposure('both', 'control', START), exposure('both', 'test', START + 1), happening('both', 'paid', START + 2),
    exposure('one', 'test', START), happening('one', 'paid', START + 2)
  ]
  const scope = await plant(events)

  const changes = await measure(scope, metric({ kind: 'funnel', event: 'paid' }))

  t.equal(changes.multiple, 1)
  t.match(total(changes, 'control'), { exposed: 0, sum: 0 })
  t.match(total(changes, 'test'), { exposed: 1, sum: 1 })
})

t.test('follows merges: what a person did under two ids is one person', async (t) => {
  const events = [exposure('anonymous', 'test', START), happening('known', 'paid', START + 1), exposure('known', 'test', START + 2)]
  const scope = await plant(events)
  const before = await measure(scope, metric({ kind: 'funnel', event: 'paid' }))

  await client.command({
    query: `INSERT INTO person_overrides (project_id, old_person_id, person_id, version)
      SELECT project_id, anyIf(person_id, distinct_id = 'anonymous'), anyIf(person_id, distinct_id = 'known'), 1
      FROM events WHERE project_id = ${scope.projectId} GROUP BY project_id`
  })
  const after = await measure(scope, metric({ kind: 'funnel', event: 'paid' }))

  t.match(total(before, 'test'), { exposed: 2, sum: 0 })
  t.match(total(after, 'test'), { exposed: 1, sum: 1 })
})

t.test('counts groups instead of persons', async (t) => {
  const acme = { company: 'acme' }
  const events = [
    exposure('a', 'test', START, acme), exposure('b', 'test', START + 1, acme), exposure('alone', 'test', START),
    happening('c', 'paid', START + 2, {}, acme), happening('alone', 'paid', START + 2)
  ]
  const scope = await plant(events)

  const changes = await measure({ ...scope, groupType: 'company' }, metric({ kind: 'funnel', event: 'paid' }))

  t.match(total(changes, 'test'), { exposed: 1, sum: 1 })
})

t.test('takes the steps of a funnel in order, within the window after exposure', async (t) => {
  const path = (id: string, ...steps: [event: string, day: number][]): TestEvent[] => [
    exposure(id, 'test', START), ...steps.map(([event, day]) => happening(id, event, START + day * DAY))
  ]
  const events = [
    ...path('through', ['view', 1], ['cart', 2], ['paid', 3]),
    ...path('wrong way', ['paid', 1], ['cart', 2], ['view', 3]),
    ...path('detour', ['cart', 1], ['view', 2], ['paid', 3], ['cart', 4], ['paid', 5]),
    ...path('slow', ['view', 1], ['cart', 2], ['paid', 9]),
    ...path('nothing')
  ]
  const scope = await plant(events)
  const steps = ['view', 'cart', 'paid']

  const open = await measure(scope, metric({ kind: 'funnel', steps }))
  const week = await measure(scope, metric({ kind: 'funnel', steps, window_days: 7 }))

  t.same(total(open, 'test').steps, [4, 3, 3])
  t.match(total(open, 'test'), { exposed: 5, sum: 3 })
  t.same(total(week, 'test').steps, [4, 3, 2])
})

t.test('compares properties as a client wrote the conditions', async (t) => {
  const properties = [
    { plan: 'Pro', seats: 5, trial: true }, { plan: 'pro+', seats: '12', trial: false }, { seats: 1.5, plan: null },
    { plan: 'a\'b"c\\d%_', seats: 'many' }, {}
  ]
  const events = properties.flatMap((item, index) => [exposure(`u${index}`, 'test', START), happening(`u${index}`, 'paid', START + 1, item)])
  const scope = await plant(events)
  const count = async (...where: object[]): Promise<number> =>
    total(await measure(scope, metric({ kind: 'count', event: 'paid', where })), 'test').sum

  t.equal(await count(), 5)
  t.equal(await count({ key: 'plan', value: 'pRO' }), 1, 'in any case, as in flags')
  t.equal(await count({ key: 'plan', value: ['Pro', 'pro+'] }), 2)
  t.equal(await count({ key: 'plan', operator: 'is_not', value: 'Pro' }), 4)
  t.equal(await count({ key: 'plan', operator: 'icontains', value: 'PRO' }), 2)
  t.equal(await count({ key: 'plan', operator: 'not_icontains', value: 'pro' }), 3)
  t.equal(await count({ key: 'plan', operator: 'regex', value: '^[Pp]ro.?$' }), 2)
  t.equal(await count({ key: 'plan', operator: 'not_regex', value: '^[Pp]ro.?$' }), 3)
  t.equal(await count({ key: 'plan', value: 'a\'b"c\\d%_' }), 1)
  t.equal(await count({ key: 'plan', operator: 'is_set' }), 4, 'a null is there, as in flags')
  t.equal(await count({ key: 'plan', operator: 'is_not_set' }), 1)
  t.equal(await count({ key: 'seats', operator: 'gt', value: 1.5 }), 2)
  t.equal(await count({ key: 'seats', operator: 'gte', value: '1.5' }), 3)
  t.equal(await count({ key: 'seats', operator: 'lt', value: 5 }), 1)
  t.equal(await count({ key: 'seats', operator: 'lte', value: 5 }), 2)
  t.equal(await count({ key: 'seats', operator: 'between', value: [1.5, 5] }), 2)
  t.equal(await count({ key: 'seats', operator: 'not_between', value: ['2', 5] }), 3, 'an absent one, too; not a text')
  t.equal(await count({ key: 'plan', operator: 'icontains', value: ['PRO', 'NULL'] }), 3)
  t.equal(await count({ key: 'trial', value: true }), 1)
  t.equal(await count({ key: 'trial', value: 'true' }, { key: 'seats', value: 5 }), 1)
  t.equal(await count({ key: 'trial', value: 'true' }, { key: 'seats', value: 6 }), 0)
})

t.test('agrees with a plain model on random people, for every kind, day by day', async (t) => {
  const random = createRandom(20_260_301)
  const events: TestEvent[] = []
  for (let person = 0; person < 400; person++) {
    const id = `p${person}`
    for (let i = 0; i < 1 + random() * 1.2; i++) {
      events.push(exposure(id, ['control', 'test', 'other'][Math.floor(random() * 2.2)] ?? '', START + Math.floor(random() * 10 * DAY)))
    }
    for (let i = 0; i < random() * 8; i++) {
      const amount = [Math.round(random() * 1000) / 10, String(Math.round(random() * 100)), 'none', null][Math.floor(random() * 3.9)]
      events.push(happening(id, random() < 0.7 ? 'paid' : 'cart', START + Math.floor(random() * 11 * DAY), { amount }))
    }
  }
  const scope = await plant(events)

  for (const kind of ['funnel', 'count', 'sum', 'mean'] as const) {
    const changes = await measure(scope, metric({ kind, event: 'paid', ...(kind === 'sum' || kind === 'mean') && { property: 'amount' } }))
    for (let day = 0; day < 10; day++) {
      const until = START + (day + 1) * DAY
      const state = changes.days.find((each) => each.day === new Date(until - DAY).toISOString().slice(0, 10))
      for (const found of state?.variants ?? []) {
        const wanted = model(events, kind, found.key, until)
        const { exposed, measured, sum, squaredDeviations } = found
        t.same({ exposed, measured, sum: round(sum), ...(kind === 'funnel' ? {} : { squaredDeviations: round(squaredDeviations) }) },
          wanted, `${kind} of ${found.key} on day ${day}`)
      }
    }
  }
})

t.test('a large amount and its refund leave the spread of everybody else, to the last digits', async (t) => {
  const random = createRandom(20_260_302)
  const events: TestEvent[] = []
  // Whole cents, so that exact arithmetic knows each value. The refunds come on the same day, a day or some days later.
  const cents: { variant: string, day: number, person: number, cents: bigint }[] = []
  for (let person = 0; person < 200; person++) {
    const variant = person % 2 === 0 ? 'control' : 'test'
    events.push(exposure(`p${person}`, variant, START))
    const pay = (day: number, amount: string): void => {
      events.push(happening(`p${person}`, 'paid', START + day * DAY + 1 + Math.floor(random() * 1000), { amount: person % 3 === 0 ? Number(amount) : amount }))
      cents.push({ variant, day, person, cents: BigInt(amount.replace('.', '')) })
    }
    for (let i = 0; i < 3; i++) pay(Math.floor(random() * 10), `${Math.floor(random() * 900) + 10}.${Math.floor(random() * 90) + 10}`)
    if (person % 10 < 2) pay(1, '1000000000000000.00')
    if (person % 10 < 2) pay(person % 4 < 2 ? 1 : 5, '-1000000000000000.00')
    if (person === 7) pay(0, `1${'0'.repeat(40)}.00`)
    if (person === 7) pay(3, `-1${'0'.repeat(40)}.00`)
  }
  for (const amount of ['nan', 'NaN', '-inf', 'Infinity', '1e300', 1e300, '-1e61', '0x10', '', ' ', true, [1e15], { a: 1e15 }]) {
    events.push(happening('p0', 'paid', START + DAY, { amount }))
  }
  const { days } = await measure(await plant(events), metric({ kind: 'sum', event: 'paid', property: 'amount' }))

  for (const [day, { variants }] of days.entries()) {
    for (const { key, measured, sum, squaredDeviations } of variants.slice(0, 2)) {
      const totals = Map.groupBy(cents.filter((one) => one.variant === key && one.day <= day), ({ person }) => person)
      const values = [...totals.values()].map((own) => own.reduce((total, one) => total + one.cents, 0n))
      // n * sum of squares - square of the sum, of whole numbers: n times the squared deviations, exactly.
      const exactSum = values.reduce((total, value) => total + value, 0n)
      const exactSpread = 100n * values.reduce((total, value) => total + value * value, 0n) - exactSum * exactSum
      t.equal(measured, 100)
      t.ok(Math.abs(sum / (Number(exactSum) / 100) - 1) < 1e-12, `sum of ${key} on day ${day}: ${sum}`)
      t.ok(Math.abs(squaredDeviations / (Number(exactSpread) / 1e6) - 1) < 1e-9, `spread of ${key} on day ${day}: ${squaredDeviations}`)
    }
  }
  const [control, test] = days.at(-1)!.variants
  t.ok(control!.squaredDeviations < 1e8 && test!.squaredDeviations < 1e8, 'nothing of the large amounts is left')
})

t.test('neither bots nor the exposure itself are anything that people did', async (t) => {
  const bot = (event: TestEvent): TestEvent => ({ ...event, is_bot: true })
  const events = [
    exposure('quiet', 'test', START), exposure('quiet', 'test', START + DAY), { ...exposure('quiet', 'x', START + 1), feature_flag: 'header' },
    exposure('looks', 'test', START), happening('looks', 'view', START),
    bot(exposure('crawler', 'test', START)), bot(happening('crawler', 'view', START + 1)),
    exposure('both', 'test', START), bot(happening('both', 'view', START + 1))
  ]
  const scope = await plant(events)
  const anyEvent = (insight: object): Metric => readMetric('filters', { ...insight, events: [{ id: null, ...insight }] })!

  t.match(total(await measure(scope, anyEvent({ insight: 'FUNNELS' })), 'test'), { exposed: 3, sum: 1, steps: [1] })
  t.match(total(await measure(scope, anyEvent({ insight: 'TRENDS', math: 'total' })), 'test'), { exposed: 3, sum: 1 })
  t.match(total(await measure(scope, metric({ kind: 'count', event: '$feature_flag_called' })), 'test'), { exposed: 3, sum: 1 }, 'another flag, by its name')
})

t.test('takes steps of one millisecond in any order, and each event for one step', async (t) => {
  const at = START + DAY
  const tie = (id: string, ...events: string[]): TestEvent[] => [exposure(id, 'test', START), ...events.map((event) => happening(id, event, at))]
  const reached = async (steps: unknown[], ...events: string[]): Promise<number[]> =>
    total(await measure(await plant(tie('a', ...events)), metric({ kind: 'funnel', steps })), 'test').steps

  t.same(await reached(['a', 'b'], 'b', 'a'), [1, 1])
  t.same(await reached(['b', 'a'], 'b', 'a'), [1, 1])
  t.same(await reached(['a', 'b', 'a'], 'a', 'b', 'a'), [1, 1, 1])
  t.same(await reached(['a', 'b', 'a'], 'a', 'b'), [1, 1, 0])
  t.same(await reached(['a', 'b', 'c', 'd'], 'd', 'c', 'b', 'a'), [1, 1, 1, 1])
  t.same(await reached(['a', 'a'], 'a'), [1, 0])
  const any = readMetric('filters', { insight: 'FUNNELS', events: [{ id: 'a' }, { id: null }] })!
  t.same(total(await measure(await plant(tie('a', 'a', 'b')), any), 'test').steps, [1, 1])
})

t.test('of thousands of events of a person in one millisecond, as many are looked at as there are steps', async (t) => {
  const events = [exposure('import', 'test', START), ...Array.from({ length: 20_000 }, (_, index) => happening('import', index % 2 === 0 ? 'a' : 'b', START + DAY))]

  const { days } = await measure(await plant(events), metric({ kind: 'funnel', steps: ['b', 'a', 'b', 'a', 'none'] }))

  t.same(total({ days }, 'test').steps, [1, 1, 1, 1, 0])
})

function round (value: number): number {
  return Math.round(value * 1e6) / 1e6
}

/** The rules once more, without any SQL: the results of a variant at `until`. */
function model (events: TestEvent[], kind: 'funnel' | 'count' | 'sum' | 'mean', variant: string, until: number): object {
  const inside = events.filter(({ timestamp }) => timestamp >= START && timestamp < START + 10 * DAY)
  let exposed = 0
  const all: number[] = []
  for (const own of Map.groupBy(inside, ({ distinct_id: id }) => id).values()) {
    const exposures = own.filter(({ feature_flag: flag }) => flag !== undefined)
    const first = Math.min(...exposures.map(({ timestamp }) => timestamp))
    if (first >= until || exposures.length === 0) continue
    if (exposures.some(({ feature_flag_response: response }) => response !== variant)) continue
    exposed++
    const paid = own.filter(({ event, timestamp }) => event === 'paid' && timestamp >= first && timestamp < until)
    const amounts = paid.map(({ properties }) => Number.parseFloat(String(properties['amount']))).filter(Number.isFinite)
    const amount = amounts.reduce((both, one) => both + one, 0)
    if (kind === 'mean' && amounts.length === 0) continue
    const values = { funnel: Math.min(1, paid.length), count: paid.length, sum: amount, mean: amount / amounts.length }
    all.push(values[kind])
  }
  const sum = all.reduce((total, value) => total + value, 0)
  const squaredDeviations = all.reduce((total, value) => total + (value - sum / all.length) ** 2, 0)
  return { exposed, measured: all.length, sum: round(sum), ...(kind === 'funnel' ? {} : { squaredDeviations: round(squaredDeviations) }) }
}
