import t from 'tap'
import { personUuid } from '../../platform/persons/person-uuid.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { origin, readPersons, startTestStores } from './test-people.ts'

t.test('applies what events say about persons, in order', async (t) => {
  const { publish, start, settled, sql } = await startTestStores(t)
  start()

  await publish([
    { ...origin(), kind: 'person', distinctId: 'a', set: { plan: 'free', seats: 1 }, setOnce: { first: 'x' } },
    { ...origin(), kind: 'person', distinctId: 'a', set: { plan: 'pro' }, setOnce: { first: 'y' }, unset: ['seats'] }
  ])
  await settled()

  const persons = await readPersons(sql, 1)
  t.match(persons, [{
    uuid: personUuid(1, 'a'), properties: { plan: 'pro', first: 'x' }, isIdentified: false, distinctIds: ['a']
  }])
  t.strictSame(persons[0]?.properties, { plan: 'pro', first: 'x' })
})

t.test('makes the anonymous person and the identified one one person, for past events too', async (t) => {
  const { publish, start, settled, sql, clickhouse: { client } } = await startTestStores(t)
  start()
  await client.insert({
    table: 'events',
    values: ['anonymous-1', 'jo', 'stranger'].map((id) => ({ project_id: 1, event: 'e', distinct_id: id, timestamp: '2026-01-01 00:00:00' })),
    format: 'JSONEachRow'
  })

  await publish([{ ...origin(), kind: 'person', distinctId: 'anonymous-1', set: { source: 'ad', plan: 'none' } }])
  await publish([{ ...origin(), kind: 'person', distinctId: 'jo', set: { plan: 'pro' } }])
  await publish([{ ...origin(), kind: 'merge', how: 'identify', distinctId: 'jo', otherDistinctId: 'anonymous-1', set: { name: 'Jo' } }])
  await settled()

  const uuid = personUuid(1, 'jo')
  t.match(await readPersons(sql, 1), [
    { uuid, properties: { source: 'ad', plan: 'pro', name: 'Jo' }, isIdentified: true, distinctIds: ['anonymous-1', 'jo'] }
  ])
  const byPerson = await waitFor(async () => {
    const result = await client.query({
      query: `SELECT person_id, groupArray(distinct_id) AS ids, any(JSONExtractString(properties, 'name')) AS name
        FROM (SELECT project_id, person_id, distinct_id FROM events_with_person ORDER BY distinct_id) AS e
        JOIN persons FINAL USING (project_id, person_id) GROUP BY person_id`,
      format: 'JSONEachRow'
    })
    const rows = await result.json<{ ids: string[] }>()
    return rows.length === 1 && rows[0]?.ids.length === 2 && rows
  })
  t.strictSame(byPerson, [{ person_id: uuid, ids: ['anonymous-1', 'jo'], name: 'Jo' }])
})
