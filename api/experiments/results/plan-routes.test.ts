import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createTestApi } from '../../testing/create-test-api.ts'

const NOW = Date.parse('2026-03-01T00:00:00Z')
const DAY = 86_400_000

const { client } = await createTestClickHouse(t)
const shared = await createTestApi(t, { clickhouse: client, now: () => NOW })

interface Row { person: number, event: string, daysAgo: number, amount?: number, flag?: string, shown?: string }

async function plant (projectId: number, rows: Row[]): Promise<void> {
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: rows.map(({ person, event, daysAgo, amount, flag = '', shown = '' }) => ({
      project_id: projectId, uuid: randomUUID(), event, distinct_id: `person ${person}`, received_at: NOW, timestamp: NOW - daysAgo * DAY,
      properties: JSON.stringify({ amount }), feature_flag: flag, feature_flag_response: shown
    }))
  })
}

/** People who pay the same before and after, nearly: what CUPED is for. */
const habits = (exposing: Pick<Row, 'event' | 'flag' | 'shown'>): Row[] => Array.from({ length: 400 }, (_, person): Row[] => {
  const amount = 10 + person % 7 * 3
  return [
    { person, daysAgo: 10, ...exposing },
    { person, event: 'paid', daysAgo: 12, amount }, { person, event: 'paid', daysAgo: 5, amount: amount + person * 13 % 5 }
  ]
}).flat()

const DRAFT = { name: 'Next', feature_flag_key: 'next', filters: { metric: { kind: 'sum', event: 'paid', property: 'amount' } } }

t.test('a draft is planned by what people did in the last weeks, with the gain of CUPED', async (t) => {
  const api = await shared.inNewProject()
  const { body: draft } = await api.call('POST', '~/experiments', DRAFT)
  const plan = async (query = ''): Promise<any> => (await api.call('GET', `~/experiments/${draft.id}/plan${query}`)).body
  t.match(await plan(), { people: 0, baseline: null, with_cuped: null, without_cuped: null }, 'nobody yet')
  await plant(api.projectId, habits({ event: '$feature_flag_called', flag: 'next', shown: 'control' }))
  const exposed = await plan()
  t.match(exposed, { days: 28, population: 'exposed', people: 400, people_per_day: 400 / 11, minimum_detectable_effect: 5 })
  // 10 to 28 in steps of 3, and 0 to 4 on top: the mean is 21, and the history tells all but the rest's variance of 2.
  t.ok(Math.abs(exposed.baseline - 21) < 0.1, `${exposed.baseline}`)
  const share = 36 / 38
  t.ok(Math.abs(exposed.variance_reduction - share) < 0.01, `${exposed.variance_reduction} of ${share}`)
  const needed = 2 * ((1.959964 + 0.841621) / (0.05 * 21)) ** 2 * 2 * 2
  t.ok(Math.abs(exposed.with_cuped.total - needed) < 0.1 * needed, `${exposed.with_cuped.total} of ${needed}`)
  const gain = exposed.without_cuped.total * (1 - exposed.variance_reduction)
  t.ok(Math.abs(gain - exposed.with_cuped.total) <= 4, `${gain}`)
  t.equal(exposed.without_cuped.running_days, Math.ceil(exposed.without_cuped.total / (400 / 11)))
  await api.call('PATCH', `~/experiments/${draft.id}`, { parameters: { minimum_detectable_effect: 10 } })
  t.ok((await plan()).with_cuped.total < exposed.with_cuped.total / 3)
  t.match(await plan('?days=7'), { people: 400, population: 'active' }, 'the calls of the flag are older')
  t.match(await api.call('GET', `~/experiments/${draft.id}/plan?days=3`), { status: 400, body: { attr: 'days' } })
  const variants = [{ key: 'control', rollout_percentage: 0 }, { key: 'test', rollout_percentage: 100 }]
  t.match(await api.call('PATCH', `~/experiments/${draft.id}`, { parameters: { feature_flag_variants: variants } }), { status: 200 })
  t.match(await plan(), { people: 400, with_cuped: null, without_cuped: null }, 'nobody would see the baseline')
})

t.test('a history that tells everything leaves no size without CUPED', async (t) => {
  const api = await shared.inNewProject()
  const { body: draft } = await api.call('POST', '~/experiments', DRAFT)
  await plant(api.projectId, Array.from({ length: 400 }, (_, person): Row[] => [
    { person, event: '$feature_flag_called', flag: 'next', shown: 'control', daysAgo: 10 },
    ...[12, 5].map((daysAgo): Row => ({ person, event: 'paid', daysAgo, amount: person % 4 }))
  ]).flat())

  t.match(await api.call('GET', `~/experiments/${draft.id}/plan`), {
    status: 200, body: { people: 400, variance_reduction: 1, without_cuped: null, with_cuped: { per_variant: Array } }
  })
})

t.test('a holdout shows what all its flags did together', async (t) => {
  const api = await shared.inNewProject()
  const flag = (key: string, percentage: number): object => ({
    key,
    filters: { groups: [{ properties: [] }], holdout: { id: 7, exclusion_percentage: percentage } }
  })
  for (const key of ['one', 'two']) t.match(await api.call('POST', '~/feature_flags', flag(key, 10)), { status: 201 })
  const rows = Array.from({ length: 2_000 }, (_, person): Row[] => {
    const isHeld = person % 10 === 0
    const shown = isHeld ? 'holdout-7' : person % 2 === 0 ? 'false' : 'true'
    const call = { person, event: '$feature_flag_called', daysAgo: 5, shown }
    const calls = ['one', 'two'].map((flag): Row => ({ ...call, flag }))
    return [...calls, ...person % 100 < (isHeld ? 35 : 40) ? [{ person, event: 'paid', daysAgo: 2 }] : []]
  }).flat()
  await plant(api.projectId, [...rows, { person: 9_000, event: '$feature_flag_called', daysAgo: 5, flag: 'other', shown: 'true' }])
  const ask = async (holdout: string, query: object): Promise<any> =>
    await api.call('GET', `~/experiments/holdouts/${holdout}?${new URLSearchParams({ metric: '{"kind":"funnel","event":"paid"}', from: '2026-02-01', ...query }).toString()}`)

  t.match(await ask('7', {}), {
    status: 200,
    body: {
      flags: ['one', 'two'],
      result: {
        baseline: 'holdout', exposures: { total: 2_000, multiple_variants: 0, sample_ratio: { mismatch: false } },
        variants: [{ key: 'holdout', exposed: 200, sum: 80 }, { key: 'launched', exposed: 1_800, sum: 720, comparison: { absolute_lift: 0 } }]
      }
    }
  })
  t.match(await ask('8', {}), { status: 404 })
  t.match(await ask('7', { metric: 'paid' }), { status: 400, body: { attr: 'metric' } })
  const deep = `{"kind":"count","event":"paid","where":${'['.repeat(3000)}${']'.repeat(3000)}}`
  t.match(await ask('7', { metric: deep }), { status: 400, body: { attr: /^metric__where/, detail: /nested deeper than 64/ } })
  t.match(await ask('7', { metric: '{"kind":"sum","event":"paid"}' }), { status: 400, body: { attr: 'metric__property' } })
  t.match((await ask('7', { to: '9999-12-31' })).body.result.series.at(-1), { day: '2026-03-01' }, 'no day of the future')
  t.match(await ask('7', { to: '2026-01-01' }), { status: 400, body: { attr: 'to' } })
  await api.call('POST', '~/feature_flags', flag('three', 20))
  t.match(await ask('7', {}), { status: 400, body: { attr: 'holdout' } })
})
