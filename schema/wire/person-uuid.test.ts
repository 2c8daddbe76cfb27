import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { personUuid } from './identity.ts'

t.test('gives the ids of the specification', async (t) => {
  t.equal(personUuid(1, 'user_1'), '131ecd7b-7aa1-5121-8fd3-5353d39dd23e')
  t.equal(personUuid(2, 'u1'), '6b8b289f-c639-5965-897b-ac480f51b19b')
})

t.test('gives what ClickHouse computes for events, whatever the text', async (t) => {
  const { client } = await createTestClickHouse(t)
  const distinctIds = ['user_1', '', ' ', 'üñí😀', '$device:"x"\\', "a'b", 'x'.repeat(200)]
  for (let i = 0; i < 200; i++) distinctIds.push(`id${i}`)
  await client.insert({
    table: 'events',
    values: distinctIds.map((id) => ({ project_id: 7, event: 'e', distinct_id: id, timestamp: '2026-01-01 00:00:00' })),
    format: 'JSONEachRow'
  })

  const result = await client.query({ query: 'SELECT distinct_id, person_id FROM events', format: 'JSONEachRow' })
  const rows = await result.json<{ distinct_id: string, person_id: string }>()

  t.equal(rows.length, distinctIds.length)
  t.same(rows.filter((row) => row.person_id !== personUuid(7, row.distinct_id)), [])
})
