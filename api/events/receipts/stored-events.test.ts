import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse, stopMerges } from '../../../test/support/test-stores.ts'
import { listStoredEvents } from './stored-events.ts'

t.test('lists the newest events of a distinct id by receipt, whatever their day, and each once', async (t) => {
  const { client } = await createTestClickHouse(t)
  const now = Date.now()
  const text = (at: number): string => new Date(at).toISOString().replace('T', ' ').replace('Z', '')
  const DAY_MS = 86_400_000
  const make = (daysAgo: number, receivedAt: number, more: object = {}): object => ({
    project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: 'jo', timestamp: text(now - daysAgo * DAY_MS),
    received_at: text(receivedAt), ...more
  })
  const old = Array.from({ length: 300 }, (_, index) =>
    make(20 + index % 60, now - (20 + index % 60) * DAY_MS - index))
  const recent = [1, 2, 3].map((days) => make(days, now - days * DAY_MS, { event: 'recent' }))
  const imported = [1, 2, 3].map((minutes) => make(70, now - minutes * 60_000, { event: 'imported' }))
  const others = [make(0, now, { distinct_id: 'al' }), make(0, now, { project_id: 2 })]
  for (const values of [old, recent, imported, others]) await client.insert({ table: 'events', values, format: 'JSONEachRow' })
  const list = async (limit: number, projectId = 1): Promise<string[]> =>
    (await listStoredEvents({ projectId, distinctId: 'jo', limit }, client)).map(({ event }) => event)
  const first = ['imported', 'imported', 'imported', 'recent', 'recent', 'recent']

  t.same(await list(6), first)
  t.same(await list(8), [...first, 'e', 'e'])
  t.equal((await list(1000)).length, 306, 'all of them')
  t.same(await list(10, 2), ['e'])

  // More copies than are spared for.
  const copies = Array.from({ length: 40 }, () => recent[0]!)
  await stopMerges(t, client, ['events'])
  await client.insert({ table: 'events', values: copies, format: 'JSONEachRow', clickhouse_settings: { optimize_on_insert: 0 } })
  t.same(await list(8), [...first, 'e', 'e'])
})
