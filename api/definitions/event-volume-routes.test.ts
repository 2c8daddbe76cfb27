import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi } from '../testing/create-test-api.ts'

const NOW = Date.parse('2026-03-31T23:59:00Z')

t.test('counts the events of each day, whatever their names', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client, now: () => NOW })
  const names = ['paid', "it's", '\u{1f600}'.repeat(100), ...Array.from({ length: 20 }, (_, n) => `${n}${'ü'.repeat(190)}`)]
  const ids: string[] = []
  for (const name of names) {
    const [row] = await api.sql<{ id: string }[]>`
      INSERT INTO event_definitions (project_id, name) VALUES (${api.projectId}, ${name}) RETURNING id`
    ids.push(row!.id)
  }
  const add = async (event: string, day: string, volume: number, project = api.projectId): Promise<void> => {
    const row = { project_id: project, event, day, volume, last_seen: `${day} 00:00:00`, last_inserted: `${day} 00:00:00` }
    await client.insert({ table: 'event_volumes_by_day', format: 'JSONEachRow', values: [row] })
  }
  for (const name of names) await add(name, '2026-03-31', 2)
  await add('paid', '2026-03-31', 3)
  await add('paid', '2026-03-02', 7)
  await add('paid', '2026-03-01', 100)
  await add('paid', '2026-04-02', 100)
  await add('paid', '2026-03-30', 100, api.projectId + 1)

  const { status, body } = await api.call('GET', `~/event_definitions/volumes/?ids=${ids.join()}`)

  t.equal(status, 200)
  t.equal(body.from, '2026-03-02')
  const results = body.results as { id: string, volumes: number[] }[]
  const byId = new Map(results.map(({ id, volumes }) => [id, volumes]))
  t.same(byId.get(ids[0]!), [7, ...Array.from({ length: 28 }, () => 0), 5])
  t.ok(ids.every((id) => byId.get(id)?.at(-1)! >= 2), 'each name, in however many queries')
  const other = await api.inNewProject()
  t.same((await other.call('GET', `~/event_definitions/volumes/?ids=${ids[0]}`)).body.results, [], 'nothing of another project')
})

t.test('refuses what is no list of ids, and says that ClickHouse is unavailable', async (t) => {
  const api = await createTestApi(t)
  const [row] = await api.sql<{ id: string }[]>`INSERT INTO event_definitions (project_id, name) VALUES (${api.projectId}, 'paid') RETURNING id`

  t.same((await api.call('GET', '~/event_definitions/volumes/')).body.results, [])
  t.match(await api.call('GET', '~/event_definitions/volumes/?ids=7'), { status: 400, body: { attr: 'ids' } })
  t.match(await api.call('GET', `~/event_definitions/volumes/?ids=${row!.id}`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})
