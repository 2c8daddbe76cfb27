import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestApi } from '../../testing/create-test-api.ts'
import { createExperiments, DAY, EXPERIMENT, START } from '../testing/plant-experiment.ts'

const { client, plant, shared } = await createExperiments(t)

t.test('answers the secondary metrics, one or all', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, {
    people: 400, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: (person) => person % 4 < 2
  })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  const ask = async (query = ''): Promise<any> => await api.call('GET', `~/experiments/${experiment.id}/secondary_results${query}`)

  t.match(await ask(), {
    status: 200,
    body: { id: experiment.id, result: [{ control: 5, test: 5 }, { control: 10, test: 10 }], analysis: [{ kind: 'sum' }, { kind: 'mean' }] }
  })
  t.match(await ask('?id=1'), {
    body: { result: { control: 10, test: 10 }, analysis: { metric: { name: 'Basket' }, variants: [{ exposed: 200, measured: 100 }, {}] } }
  })
  t.match(await ask('?id=one'), { status: 400, body: { detail: 'Secondary metric id must be an integer', attr: 'id' } })
  t.match(await ask('?id=2'), { status: 400, body: { detail: 'Invalid metric ID', attr: 'id' } })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { secondary_metrics: {} })
  t.match(await ask(), { status: 400, body: { detail: 'Experiment has no secondary metrics', attr: 'secondary_metrics' } })
})

t.test('tells a misspelt event or property from one that nobody reached', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, { people: 40, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: () => true })
  const warningsOf = async (metric: object): Promise<unknown> => {
    const { body: experiment } = await api.call('POST', '~/experiments', { ...EXPERIMENT, filters: { metric } })
    return (await api.call('GET', `~/experiments/${experiment.id}/results`)).body.result.warnings
  }
  const unseen = (event: string): object => ({ code: 'event_not_seen', event, property: null })

  t.same(await warningsOf({ kind: 'funnel', event: 'paid' }), [])
  t.match(await warningsOf({ kind: 'funnel', event: 'payd' }), [unseen('payd')])
  t.match(await warningsOf({ kind: 'funnel', steps: ['paid', 'Paid', 'paid'] }), [unseen('Paid')])
  t.same(await warningsOf({ kind: 'funnel', event: 'paid', where: [{ key: 'amount', value: 11 }] }), [])
  t.same(await warningsOf({ kind: 'mean', event: 'paid', property: 'amount' }), [])
  t.match(await warningsOf({ kind: 'mean', event: 'paid', property: 'amuont' }), [{ code: 'property_without_numbers', event: 'paid', property: 'amuont' }])
  t.match(await warningsOf({ kind: 'sum', event: 'payd', property: 'amount' }), [unseen('payd')])
  t.match(await warningsOf({ kind: 'count', event: '__proto__' }), [unseen('__proto__')])
  const at = START - 29 * DAY
  const earlier = { project_id: api.projectId, event: 'bought', distinct_id: 'early', timestamp: at, received_at: at, properties: '{}' }
  await client.insert({ table: 'events', values: [{ ...earlier, uuid: randomUUID() }, { ...earlier, uuid: randomUUID(), event: 'sold', timestamp: START - 31 * DAY }], format: 'JSONEachRow' })
  t.match(await warningsOf({ kind: 'count', event: 'bought' }), [{ ...unseen('bought'), detail: /, but 1 in the 30 days before its start: the name is right/ }])
  t.match(await warningsOf({ kind: 'count', event: 'sold' }), [{ ...unseen('sold'), detail: /, nor in the 30 days before its start\. Is its name right\?$/ }])
  const ratio = async (numerator: object, denominator: object): Promise<unknown> => await warningsOf({ kind: 'ratio', numerator, denominator })
  t.same(await ratio({ event: 'paid', property: 'amount' }, { event: 'paid' }), [])
  t.match(await ratio({ event: 'paid' }, { event: 'paid', property: 'amuont' }), [{ code: 'property_without_numbers', property: 'amuont' }])
  t.match(await ratio({ event: 'payd' }, { event: 'Paid' }), [unseen('payd'), unseen('Paid')])
  t.match(await warningsOf({ kind: 'retention', start_event: 'paid', completion_event: 'payd' }), [unseen('payd')])
})

t.test('whatever amounts were sent, whenever it began, there are results', async (t) => {
  const api = await shared.inNewProject()
  await plant(api.projectId, { people: 400, variant: (person) => person % 2 === 0 ? 'control' : 'test', converts: () => true })
  const send = async (person: number, day: number, amount: unknown): Promise<void> => {
    const at = START + day * DAY
    const row = {
      project_id: api.projectId, uuid: randomUUID(), event: 'paid', distinct_id: `person ${person}`, timestamp: at, received_at: at, properties: JSON.stringify({ amount })
    }
    await client.insert({ table: 'events', values: [row], format: 'JSONEachRow' })
  }
  const { body: experiment } = await api.call('POST', '~/experiments', { ...EXPERIMENT, filters: EXPERIMENT.secondary_metrics[0]!.filters, start_date: '1000-01-01' })
  const ask = async (): Promise<any> => await api.call('GET', `~/experiments/${experiment.id}/results?refresh=true`)
  const { body: before } = await ask()

  await send(2, 2, 1e15)
  await send(2, 5, -1e15)
  t.same((await ask()).body.result.variants, before.result.variants, 'nothing is left of what was taken back')
  for (const amount of [1e60, -1e60, '1e300', 'NaN', 'inf', '-Infinity', '9'.repeat(400), {}, [1]]) await send(3, 3, amount)
  t.match(await ask(), { status: 200, body: { result: { variants: [{ sum: 2000 }, { sum: 2000 }] } } })
  await send(4, 4, 1e60)
  t.match(await ask(), { status: 200, body: { result: { variants: [{ sum: 1e60 }, { sum: 2000 }] } } })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { end_date: '1900-01-01' })
  t.match(await ask(), { status: 200, body: { result: { exposures: { total: 0 } } } })
})

t.test('tells whether events lack the values of flags', async (t) => {
  const api = await createTestApi(t, { clickhouse: client })
  const ask = async (query = ''): Promise<any> => await api.call('GET', `~/experiments/requires_flag_implementation${query}`)
  t.match(await ask(), { status: 200, body: { result: true, events: [] } }, 'without any experiment')
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  const insert = async (event: string, properties: object): Promise<void> => {
    const now = Date.now()
    const row = {
      project_id: api.projectId, uuid: randomUUID(), event, distinct_id: 'a', timestamp: now, received_at: now,
      properties: JSON.stringify(properties)
    }
    await client.insert({ table: 'events', values: [row], format: 'JSONEachRow' })
  }

  await insert('paid', { amount: 1 })
  t.match(await ask(), { body: { id: experiment.id, name: 'Checkout', result: true, events: [{ event: 'paid', looked_at: 1, with_flags: 0 }] } })
  await insert('paid', { '$feature/checkout': 'test' })
  t.match(await ask(`/?id=${experiment.id}`), { body: { result: false, events: [{ looked_at: 2, with_flags: 1 }] } })
  t.match(await ask('?events=["paid","view"]'), { body: { result: false, events: [{ event: 'paid' }, { event: 'view', looked_at: 0 }] } })
  t.match(await ask('?events=view'), { body: { result: true } })
})
