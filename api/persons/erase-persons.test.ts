import t from 'tap'
import { queueNotifications } from '../../platform/notifications.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { countQueued } from './erase-persons.ts'

t.test('what waits for targets is counted by whose events it has, for a thousand ids in one pass', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one')`
  const [{ id: target }] = await sql<[{ id: number }]>`
    INSERT INTO targets ${sql({ project_id: 1, name: 'ops', kind: 'webhook', url: 'https://example.com' })} RETURNING id`
  const odd = 'a"b\\é'
  const eventOf = (id: string, properties = {}) => ({ type: 'event' as const, data: JSON.stringify({ event: 'e', distinct_id: id, properties }), text: '' })
  const samples = ['bob', 'ann'].map((id) => ({ distinct_id: id, properties: '{"distinct_id":"cleo"}' }))
  await queueNotifications(sql, target, [
    eventOf('ann', { long: 'x'.repeat(50_000) }), eventOf(odd), eventOf('bob', { distinct_id: 'dora' }),
    { type: 'events', data: JSON.stringify({ event: 'e', samples }), text: '' },
    { type: 'report', data: '{"distinct_id":"ann"}', text: '' }
  ])
  const others = Array.from({ length: 1000 }, (_, index) => `other-${index}`)
  const count = async (...ids: string[]): Promise<number> => await countQueued(sql, 1, ids)
  t.equal(await count('ann', ...others), 2)
  t.equal(await count(odd), 1)
  t.equal(await count('bob'), 2)
  t.equal(await count('dora'), 0, 'a property of an event of somebody else, which stays')
  t.equal(await count('cleo'), 0)
})
