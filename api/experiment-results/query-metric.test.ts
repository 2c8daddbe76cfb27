import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createRandom } from '../../test/support/random.ts'
import { type DailyChange, type MetricScope, queryMetric } from './query-metric.ts'
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

/** Totals by variant over all days. */
function total (changes: DailyChange[], variant: string): Pick<DailyChange, 'exposed' | 'measured' | 'sum' | 'sumOfSquares'> {
  const sum = { exposed: 0, measured: 0, sum: 0, sumOfSquares: 0 }
  for (const change of changes.filter((item) => item.variant === variant)) {
    sum.exposed += change.exposed
    sum.measured += change.measured
    sum.sum += change.sum
    sum.sumOfSquares += change.sumOfSquares
  }
  return sum
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

  const changes = await queryMetric(client, scope, metric({ kind: 'count', event: 'paid' }))

  t.same(total(changes, 'control'), { exposed: 1, measured: 1, sum: 1, sumOfSquares: 1 })
  t.same(total(changes, 'test'), { exposed: 2, measured: 2, sum: 1, sumOfSquares: 1 })
})

t.test('leaves out people who saw several variants, and counts them', async (t) => {
  const events = [
    exposure('both', 'control', START), exposure('both', 'test', START + 1), happening('both', 'paid', START + 2),
    exposure('one', 'test', START), happening('one', 'paid', START + 2)
  ]
  const scope = await plant(events)

  const changes = await queryMetric(client, scope, metric({ kind: 'funnel', event: 'paid' }))

  t.match(total(changes, '$multiple'), { exposed: 1, sum: 0 })
  t.match(total(changes, 'control'), { exposed: 0, sum: 0 })
  t.match(total(changes, 'test'), { exposed: 1, sum: 1 })
})

t.test('follows merges: what a person did under two ids is one person', async (t) => {
  const events = [exposure('anonymous', 'test', START), happening('known', 'paid', START + 1), exposure('known', 'test', START + 2)]
  const scope = await plant(events)
  const before = await queryMetric(client, scope, metric({ kind: 'funnel', event: 'paid' }))

  await client.command({
    query: `INSERT INTO person_overrides (project_id, old_person_id, person_id, version)
      SELECT project_id, anyIf(person_id, distinct_id = 'anonymous'), anyIf(person_id, distinct_id = 'known'), 1
      FROM events WHERE project_id = ${scope.projectId} GROUP BY project_id`
  })
  const after = await queryMetric(client, scope, metric({ kind: 'funnel', event: 'paid' }))

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

  const changes = await queryMetric(client, { ...scope, groupType: 'company' }, metric({ kind: 'funnel', event: 'paid' }))

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
  const reached = (changes: DailyChange[]): number[] =>
    [0, 1, 2].map((step) => changes.reduce((sum, change) => sum + (change.steps[step] ?? 0), 0))

  const open = await queryMetric(client, scope, metric({ kind: 'funnel', steps }))
  const week = await queryMetric(client, scope, metric({ kind: 'funnel', steps, window_days: 7 }))

  t.same(reached(open), [4, 3, 3])
  t.match(total(open, 'test'), { exposed: 5, sum: 3 })
  t.same(reached(week), [4, 3, 2])
})

t.test('compares properties as a client wrote the conditions', async (t) => {
  const properties = [
    { plan: 'Pro', seats: 5, trial: true }, { plan: 'pro+', seats: '12', trial: false }, { seats: 1.5, plan: null },
    { plan: 'a\'b"c\\d%_', seats: 'many' }, {}
  ]
  const events = properties.flatMap((item, index) => [exposure(`u${index}`, 'test', START), happening(`u${index}`, 'paid', START + 1, item)])
  const scope = await plant(events)
  const count = async (...where: object[]): Promise<number> =>
    total(await queryMetric(client, scope, metric({ kind: 'count', event: 'paid', where })), 'test').sum

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
    const changes = await queryMetric(client, scope, metric({ kind, event: 'paid', property: 'amount' }))
    for (let day = 0; day < 10; day++) {
      const until = START + (day + 1) * DAY
      const soFar = changes.filter((change) => Date.parse(change.day) < until)
      for (const variant of VARIANTS) {
        const found = total(soFar, variant)
        const wanted = model(events, kind, variant, until)
        t.same({ ...found, sum: round(found.sum), sumOfSquares: round(found.sumOfSquares) }, wanted, `${kind} of ${variant} on day ${day}`)
      }
    }
  }
})

function round (value: number): number {
  return Math.round(value * 1e6) / 1e6
}

/** The rules once more, without any SQL: what is known of a variant at `until`. */
function model (events: TestEvent[], kind: Metric['kind'], variant: string, until: number): object {
  const inside = events.filter(({ timestamp }) => timestamp >= START && timestamp < START + 10 * DAY)
  let [exposed, measured, sum, sumOfSquares] = [0, 0, 0, 0]
  for (const own of Map.groupBy(inside, ({ distinct_id: id }) => id).values()) {
    const exposures = own.filter(({ feature_flag: flag }) => flag !== undefined)
    const first = Math.min(...exposures.map(({ timestamp }) => timestamp))
    if (first >= until || exposures.length === 0) continue
    if (exposures.some(({ feature_flag_response: response }) => response !== variant)) continue
    exposed++
    const paid = own.filter(({ event, timestamp }) => event === 'paid' && timestamp >= first && timestamp < until)
    const amounts = paid.map(({ properties }) => Number.parseFloat(String(properties['amount']))).filter(Number.isFinite)
    const amount = amounts.reduce((all, one) => all + one, 0)
    if (kind === 'mean' && amounts.length === 0) continue
    measured++
    const values = { funnel: Math.min(1, paid.length), count: paid.length, sum: amount, mean: amount / amounts.length }
    const value = values[kind]
    sum += value
    sumOfSquares += value * value
  }
  return { exposed, measured, sum: round(sum), sumOfSquares: round(sumOfSquares) }
}
