import { randomUUID } from 'node:crypto'
import t from 'tap'
import { personUuid } from '../platform/persons/person-ids.ts'
import { createTestClickHouse } from '../test/support/test-stores.ts'
import { createTestApi, type TestApi } from './testing/create-test-api.ts'

async function insertPerson ({ sql, projectId }: TestApi, distinctId: string): Promise<string> {
  const uuid = personUuid(projectId, distinctId)
  await sql`WITH person AS (INSERT INTO persons (project_id, uuid) VALUES (${projectId}, ${uuid}) RETURNING id)
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${projectId}, ${distinctId}, id FROM person`
  return uuid
}

t.test('deletes a person once, with its events if asked', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client })
  const uuid = await insertPerson(api, 'jo')
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ project_id: api.projectId, uuid: randomUUID(), event: 'e', distinct_id: 'jo', timestamp: '2026-01-01 00:00:00' }]
  })

  t.match(await api.call('DELETE', `~/persons/${uuid}?delete_events=true`), { status: 204, body: undefined })

  const result = await client.query({ query: 'SELECT count() AS events FROM events', format: 'JSONEachRow' })
  t.match(await result.json(), [{ events: /^0$/ }])
  t.match(await api.call('DELETE', `~/persons/${uuid}/`), { status: 404, body: { code: 'not_found' } })
})

t.test('begins a deletion while ClickHouse is unavailable, and says that it is not done', async (t) => {
  const api = await createTestApi(t)
  const uuid = await insertPerson(api, 'jo')

  t.match(await api.call('DELETE', `~/persons/${uuid}`), { status: 202 })
  t.equal((await api.sql`SELECT 1 FROM persons`).length, 0)
  t.match(await api.call('DELETE', `~/persons/${uuid}`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})

t.test('refuses an invalid id and an invalid delete_events', async (t) => {
  const api = await createTestApi(t)

  t.match(await api.call('DELETE', '~/persons/jo'), { status: 400, body: { type: 'validation_error', attr: 'id' } })
  t.match(await api.call('DELETE', `~/persons/${randomUUID()}?delete_events=perhaps`),
    { status: 400, body: { attr: 'delete_events' } })
})
