/** Whether events of a project arrive. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi } from '../testing/create-test-api.ts'

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
