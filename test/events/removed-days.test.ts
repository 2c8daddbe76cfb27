import t from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { clearRetention, setRetention } from '../../api/projects/retention-routes.ts'
import { applyRetention } from '../../pipeline/apply-retention.ts'
import { startTestStores } from '../../pipeline/testing/start-test-partition.ts'
import { waitFor } from '../support/wait-for.ts'

const NOW = Date.parse('2026-06-15T12:00:00Z')
const now = (): number => NOW
const stores = await startTestStores(t)
const { client, url } = stores.clickhouse
const analystUrl = Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href
const api = await createTestApi(t, { clickhouse: client, analystUrl, now })
const { sql, projectId } = api

const SERIES = [{ event: 'paid', measure: 'events' }]
const ask = async (definition: object) => {
  const { status, body } = await api.call('POST', '~/questions/answer', { definition: { version: 1, ...definition } })
  t.equal(status, 200)
  return body
}

/** Days of June on which each paid; old is a person with properties. */
const PAID = { old: [4, 13], lately: [13, 14], once: [14], before: [3] }

await client.insert({
  table: 'events', format: 'JSONEachRow',
  values: Object.entries(PAID).flatMap(([distinctId, days]) => days.map((day) => ({
    project_id: projectId, uuid: crypto.randomUUID(), event: 'paid', distinct_id: distinctId,
    timestamp: `2026-06-${String(day).padStart(2, '0')} 10:00:00`, received_at: `2026-06-${String(day).padStart(2, '0')} 10:00:00`
  })))
})
const [old] = await (await client.query({ query: "SELECT any(person_id) AS id FROM events WHERE distinct_id = 'old'", format: 'JSONEachRow' })).json<{ id: string }>()
await client.insert({
  table: 'persons', format: 'JSONEachRow',
  values: [{ project_id: projectId, person_id: old!.id, properties: '{}', created_at: '2026-06-04 10:00:00', version: 1 }]
})

const TREND = { kind: 'trend', range: { from: '2026-06-03', to: '2026-06-14' }, series: SERIES }
const keepFiveDays = async (): Promise<void> => {
  await setRetention(sql, { what: 'events', projectId, days: 5 })
  await waitFor(async () => {
    // A round takes what was stored before the longest insert that runs, which may be one of another test.
    await applyRetention({ sql, clickhouse: client, connection: stores.connection, now })
    return (await ask(TREND)).answer.lines[0].total === 4
  })
}

t.test('without retention every day has a value, and nothing is said', async (t) => {
  const { kept_from: kept, answer } = await ask(TREND)
  t.equal(kept, null)
  t.same(answer.lines[0].values, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2])
  t.notOk(answer.points.some(({ is_removed: isRemoved }: { is_removed: boolean }) => isRemoved))
})

for (const [what, lift] of [['while its rule is set', false], ['after its rule is gone', true]] as const) {
  t.test(`what retention removed has no value, ${what}`, async (t) => {
    await keepFiveDays()
    if (lift) await clearRetention(sql, { what: 'events', projectId })
    // Of a lifted rule only days of events are known.
    const kept = lift ? '2026-06-05' : '2026-06-10'
    const gone = lift ? 2 : 7

    const trend = await ask(TREND)
    t.equal(trend.kept_from, kept)
    t.same(trend.answer.lines[0].values, [...Array(gone).fill(null), ...Array(10 - gone).fill(0), 2, 2])
    t.equal(trend.answer.points.filter(({ is_removed: isRemoved }: { is_removed: boolean }) => isRemoved).length, gone)
    t.match((await ask({ ...TREND, range: { from: '2026-06-01', to: '2026-06-04' } })).answer.lines, [{ values: [null, null, null, null], total: null }])
    const compared = await ask({ ...TREND, range: { from: '2026-06-09', to: '2026-06-14' }, compare: true })
    const before = Math.min(gone, 6)
    t.same(compared.answer.previous.lines[0].values, [...Array(before).fill(null), ...Array(6 - before).fill(0)])
    const weeks = await ask({ ...TREND, range: { from: '2026-06-01', to: '2026-06-14' }, interval: 'week' })
    t.match(weeks.answer.points, [{ is_partial: true, is_removed: !lift }, { is_partial: !lift, is_removed: false }])

    const steps = [{ event: 'paid' }, { event: 'paid' }]
    t.match((await ask({ kind: 'funnel', range: { from: '2026-06-01', to: '2026-06-04' }, steps })).answer.parts, [{ steps: [{ people: null, conversion: null, median_ms: null }, { people: null }] }])
    t.match((await ask({ kind: 'funnel', range: TREND.range, steps })).answer.parts, [{ steps: [{ people: 3 }, { people: 1 }] }])

    const returned = await ask({ kind: 'retention', range: TREND.range, interval: 'day', start: { event: 'paid' }, returning: { event: 'paid' }, cohort: 'first' })
    const cohorts: { start: string, people: number | null }[] = returned.answer.cohorts
    t.same(cohorts.slice(0, gone).map(({ people }) => people), Array(gone).fill(null))
    t.same(cohorts.slice(-2).map(({ people }) => people), [1, 1], 'who is known from before is not new')
    t.match(returned.answer.cohorts[0].returned[1], { people: null })

    const { states } = (await ask({ kind: 'lifecycle', range: TREND.range, interval: 'day', activity: { event: 'paid' } })).answer
    t.match(states[0], { state: 'new', values: [...Array(gone).fill(null), ...Array(10 - gone).fill(0), 1, 1] }, 'nor here')
  })
}

t.test('an experiment that began before says so', async (t) => {
  await keepFiveDays()
  const variants = ['control', 'test'].map((key) => ({ key, rollout_percentage: 50 }))
  const filters = { groups: [{ properties: [], rollout_percentage: 100 }], multivariate: { variants } }
  for (const [start, codes] of [['2026-06-09', ['events_removed']], ['2026-06-10', []]] as const) {
    t.equal((await api.call('POST', '~/feature_flags', { key: start, filters })).status, 201)
    const { body } = await api.call('POST', '~/experiments', {
      name: start, feature_flag_key: start, start_date: `${start}T00:00:00Z`, filters: { insight: 'FUNNELS', events: [{ id: 'paid', order: 0 }] }
    })
    const { warnings } = (await api.call('GET', `~/experiments/${body.id}/results`)).body.result
    t.same(warnings.map(({ code }: { code: string }) => code), codes)
  }
})
