import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { toWarningRow, WARNINGS_TABLE, type WarningTotal } from '../../schema/wire/ingestion-warnings.ts'
import { freePort } from '../../test/support/local-ports.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send } from '../testing/create-test-api.ts'

/** Some minutes ago: older rows would be gone by the retention of the table. */
const MINUTE = Date.now() - Date.now() % 60_000 - 600_000
const SAMPLE = { receivedAt: MINUTE + 5, event: 'paid', distinctId: 'jo', uuid: 'u', lib: 'web', libVersion: '1.2.3', value: 'soon' }

t.test('counts the warnings of the last hours by reason, with the last hour by minute', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client, now: () => MINUTE + 30_000 })
  const add = async (minutes: number, reason: WarningTotal['reason'], count: number): Promise<unknown> => await client.insert({
    table: WARNINGS_TABLE, format: 'JSONEachRow',
    values: [toWarningRow('a', { projectId: api.projectId, minute: MINUTE + minutes * 60_000, reason, count, samples: [SAMPLE] })]
  })
  await add(0, 'uuid_invalid', 1)
  await add(0, 'uuid_invalid', 2)
  await add(-59, 'uuid_invalid', 3)
  await add(-60, 'uuid_invalid', 4)
  await add(-1, 'missing_event_name', 20)
  await add(-61, 'rate_limited', 1)

  const { body } = await api.call('GET', '~/ingestion_warnings/summary/?hours=1')

  t.equal(body.from, new Date(MINUTE - 3_600_000).toISOString())
  t.same(body.results.map((row: any) => [row.reason, row.effect, row.count, row.by_minute.length]), [
    ['missing_event_name', 'dropped', 20, 60], ['uuid_invalid', 'replaced', 9, 60]
  ])
  t.same([body.results[1].by_minute[0], body.results[1].by_minute[59], body.results[0].by_minute[58]], [3, 2, 20])
  t.match(body.results[1], {
    first_minute: new Date(MINUTE - 3_600_000).toISOString(), last_minute: new Date(MINUTE).toISOString(), samples: [{ event: 'paid', value: 'soon' }]
  })
  t.match(await api.call('GET', '~/ingestion_warnings/summary/?hours=0'), { status: 400, body: { attr: 'hours' } })
})

t.test('requests that belong to no project are shown on demand, and only to keys of all projects', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client, now: () => MINUTE + 30_000 })
  const totals = [
    { projectId: api.projectId, reason: 'missing_event_name' as const }, { projectId: api.projectId + 1, reason: 'rate_limited' as const },
    ...(['wrong_key', 'body_too_large', 'body_unreadable', 'unknown_path'] as const).map((reason) => ({ projectId: 0, reason }))
  ]
  for (const total of totals) {
    const row = toWarningRow('a', { ...total, minute: MINUTE, count: 1, samples: [SAMPLE] })
    await client.insert({ table: WARNINGS_TABLE, values: [row], format: 'JSONEachRow' })
  }
  const reasonsOf = (body: { results: { reason: string }[] }): string[] =>
    body.results.map(({ reason }) => reason).sort()
  const asLimited = async (path: string): Promise<{ status: number, body: any }> => {
    const { key } = await createPersonalKey(api.sql, {
      email: 'ann@example.com', label: '', scopes: ['*'], projectIds: [api.projectId], expiresAt: null
    })
    await api.keys.refresh()
    return await send(api.app, {
      method: 'GET', url: `/api/projects/${api.projectId}/ingestion_warnings${path}`, headers: { authorization: `Bearer ${key}` }
    })
  }

  const { body } = await api.call('GET', '~/ingestion_warnings/summary/?unassigned=true')
  t.match(body.results, Array(5).fill({ samples: [{ value: 'soon' }] }))
  t.same(reasonsOf(body), ['body_too_large', 'body_unreadable', 'missing_event_name', 'unknown_path', 'wrong_key'])
  for (const path of ['/summary/', '/summary/?unassigned=false']) {
    t.same(reasonsOf((await api.call('GET', `~/ingestion_warnings${path}`)).body), ['missing_event_name'], path)
    t.same(reasonsOf((await asLimited(path)).body), ['missing_event_name'], `${path} for a key of one project`)
  }
  t.match(await asLimited('/summary/?unassigned=true'), { status: 403, body: { code: 'permission_denied' } })
  t.match(await api.call('GET', '/api/projects/0/ingestion_warnings/summary/'), { status: 404 }, 'no project has this id')
})

t.test('says that ClickHouse is unavailable', async (t) => {
  const clickhouse = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(async () => await clickhouse.close())
  const api = await createTestApi(t, { clickhouse })

  t.match(await api.call('GET', '~/ingestion_warnings/summary/'), { status: 503, body: { code: 'clickhouse_unavailable' } })
})
