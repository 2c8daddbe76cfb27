/** Matches of a text besides receipts: events by name, warnings, and other projects that the key can access. */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { toWarningRow, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { freePort } from '../../test/support/local-ports.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send, type TestAnswer, type TestApi } from '../testing/create-test-api.ts'

async function createKey (api: TestApi, scopes: string[], projectIds: number[] | null): Promise<string> {
  const { key } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: 'f', scopes, projectIds, expiresAt: null })
  await api.keys.refresh()
  return key
}

async function lookUp (api: TestApi, text: string, key = api.key): Promise<TestAnswer> {
  const url = `/api/projects/${api.projectId}/lookup?text=${encodeURIComponent(text)}`
  return await send(api.app, { url, headers: { authorization: `Bearer ${key}` } })
}

/** Three projects: `mine`, and two that have the same event, distinct id and uuid. */
async function startProjects (t: Test) {
  const { client } = await createTestClickHouse(t)
  const mine = await createTestApi(t, { clickhouse: client })
  const [second, third] = [await mine.inNewProject(), await mine.inNewProject()]
  const uuid = randomUUID()
  const at = (minutes: number): string => new Date(Date.now() - minutes * 60_000).toISOString().slice(0, 19).replace('T', ' ')
  const row = (project: TestApi, minutes: number, fields: object = {}): object => ({
    project_id: project.projectId, uuid: randomUUID(), event: 'paid', distinct_id: 'jo', properties: '{}',
    timestamp: at(minutes), received_at: at(minutes), ...fields
  })
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [
      ...Array.from({ length: 12 }, (_, index) => row(mine, 2 + index)), row(mine, 1, { event: 'other' }),
      row(mine, 60 * 24 * 9, { event: 'old' }), row(mine, 60 * 24 * 3, { event: 'rare', is_bot: 1 }),
      row(second, 5, { uuid }), row(third, 5, { uuid })
    ]
  })
  for (const { projectId } of [second, third]) {
    await mine.sql`INSERT INTO event_definitions (project_id, name, last_seen_at) VALUES (${projectId}, 'paid', now())`
  }
  return { mine, second, third, uuid, client }
}

t.test('the newest events of a name, at most ten; of the last seven days', async (t) => {
  const { mine } = await startProjects(t)
  const { events } = (await lookUp(mine, 'paid')).body
  t.equal(events.length, 10)
  t.ok(events.every((event: any, index: number) => index === 0 || event.received_at <= events[index - 1].received_at))
  t.match((await lookUp(mine, 'rare')).body.events, [{ distinct_id: 'jo', is_bot: true }])
  t.same((await lookUp(mine, 'old')).body, { events: [], warnings: [], elsewhere: [] })
  t.same((await lookUp(mine, "' OR 1 = 1 --")).body, { events: [], warnings: [], elsewhere: [] })
  t.match(await lookUp(mine, ''), { status: 400, body: { attr: 'text' } })
})

t.test('other projects are named as far as the key may see them, and no other', async (t) => {
  const { mine, second, third, uuid } = await startProjects(t)
  const places = async (text: string, projects: number[] | null): Promise<string[]> => {
    const { body } = await lookUp(mine, text, await createKey(mine, ['event:read'], projects))
    return body.elsewhere.map((each: { project_id: number, what: string }) => `${each.project_id} ${each.what}`).sort()
  }
  const both = (what: string): string[] => [second, third].map(({ projectId }) => `${projectId} ${what}`)

  t.same(await places('paid', null), both('name'))
  t.same(await places('jo', null), both('distinct id'))
  t.same(await places(uuid.toUpperCase(), null), both('uuid'))
  t.same(await places(uuid, [mine.projectId, third.projectId]), [`${third.projectId} uuid`])
  for (const text of ['paid', 'jo', uuid]) t.same(await places(text, [mine.projectId]), [], text)
})

t.test('a key without the scope, or of another project, reads nothing; nor does nobody', async (t) => {
  const { mine, second } = await startProjects(t)

  t.match(await lookUp(mine, 'paid', await createKey(mine, ['person:read'], null)), { status: 403, body: { code: 'permission_denied' } })
  t.match(await lookUp(mine, 'paid', await createKey(mine, ['*'], [second.projectId])), { status: 404 })
  t.match(await lookUp(mine, 'paid', 'phx_guessed'), { status: 401 })
})

t.test('warnings are found by name, distinct id and uuid, each case once, and none of another project', async (t) => {
  const { mine, second, client } = await startProjects(t)
  const now = Date.now()
  const minute = now - now % 60_000
  const sample = { receivedAt: now, event: 'lost', distinctId: 'kim', uuid: '0193A5B2-7C1D-7E8F-9ABC-DEF012345678', lib: '', libVersion: '', value: '7' }
  const warning = { projectId: mine.projectId, minute, reason: 'invalid_properties' as const, count: 1, samples: [sample] }
  const values = [
    toWarningRow('a', warning), toWarningRow('a', warning),
    toWarningRow('a', { ...warning, projectId: second.projectId, samples: [{ ...sample, value: 'of the second' }] }),
    toWarningRow('a', { ...warning, projectId: 0, reason: 'wrong_key', samples: [{ ...sample, value: 'of nobody' }] })
  ]
  for (const row of values) await client.insert({ table: WARNINGS_TABLE, values: [row], format: 'JSONEachRow' })

  for (const text of ['lost', 'kim', sample.uuid.toLowerCase()]) {
    t.match((await lookUp(mine, text)).body.warnings, [{ reason: 'invalid_properties', effect: 'dropped', event: 'lost', value: '7' }], text)
    t.equal((await lookUp(mine, text)).body.warnings.length, 1)
  }
})

t.test('says that ClickHouse is unavailable', async (t) => {
  const clickhouse = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(async () => await clickhouse.close())
  const api = await createTestApi(t, { clickhouse })

  t.match(await lookUp(api, 'paid'), { status: 503, body: { code: 'clickhouse_unavailable' } })
})

t.test('the first event is the one that was received first, whatever older ones were imported later', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client })
  const { projectId } = api
  const arrivals = async (): Promise<object> =>
    (await api.call('GET', '~/events/arrivals')).body
  const store = async (timestamp: string, received: string): Promise<void> => {
    await client.insert({
      table: 'events', format: 'JSONEachRow',
      values: [{ project_id: projectId, uuid: randomUUID(), event: 'paid', distinct_id: 'jo', properties: '{}', timestamp, received_at: received }]
    })
  }
  t.same(await arrivals(), { last_event_at: null, first_received_at: null })

  await store('2026-03-05 10:00:00', '2026-03-05 10:00:01.250')
  await api.sql`INSERT INTO event_definitions (project_id, name, created_at, last_seen_at)
    VALUES (${projectId}, 'paid', '2026-03-05T10:00:00Z', '2026-03-05T10:00:00Z')`
  const first = { last_event_at: '2026-03-05T10:00:00.000Z', first_received_at: '2026-03-05T10:00:01.250Z' }
  t.same(await arrivals(), first, 'of an installation without books of that time')

  await client.insert({
    table: 'ledger_by_source', format: 'JSONEachRow',
    values: ['2026-03-05 10:00:00', '2026-03-06 09:00:00'].map((minute) => ({ project_id: projectId, minute, source: 'events.0', accepted: 1 }))
  })
  await store('2025-01-01 00:00:00', '2026-03-06 09:00:30.000')
  await api.sql`UPDATE event_definitions SET created_at = '2025-01-01T00:00:00Z' WHERE project_id = ${projectId}`
  t.same(await arrivals(), first, 'after an import')
})
