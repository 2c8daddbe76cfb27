import t from 'tap'
import { createDefinitionSystem } from './definition-system.ts'

/** A value that a person wrote stays until an event of that name arrives, whatever the roll-up reads meanwhile. */

const DAY_MS = 86_400_000
const WRITTEN = { volume_30_day: 1000, last_seen_at: '2021-01-01T00:00:00.000Z', created_at: '2020-01-01T00:00:00.000Z' }

const shared = await createDefinitionSystem(t)

t.test('written values of an event stay until its next event, which recomputes them', async (t) => {
  const { arrive, rollUp, sweep, event, patchEvent } = await shared.inNewProject()
  await arrive({})
  await rollUp()
  await arrive({})
  await patchEvent('order', { ...WRITTEN, query_usage_30_day: 5, post_to_slack: true })

  for (const read of [rollUp, rollUp, sweep]) {
    await read()
    t.match(await event('order'), { ...WRITTEN, query_usage_30_day: 5, post_to_slack: true })
  }

  const latest = Date.now()
  await arrive({ timestamp: latest })
  await rollUp()
  const computed = {
    volume_30_day: 3, last_seen_at: new Date(latest).toISOString(), created_at: WRITTEN.created_at, post_to_slack: true,
    query_usage_30_day: 5
  }
  t.match(await event('order'), computed)
  await sweep()
  t.match(await event('order'), computed)
})

t.test('a written value holds by itself: the other ones go on being computed', async (t) => {
  const { sql, arrive, rollUp, sweep, event, patchEvent } = await shared.inNewProject()
  const seen = Date.now() - DAY_MS
  await arrive({ timestamp: seen }, { event: 'visit', timestamp: seen })
  await rollUp()
  await patchEvent('order', { last_seen_at: '2099-01-01T00:00:00Z' })
  await patchEvent('visit', { volume_30_day: 7, tags: ['x'] })
  // As if both had been computed wrongly, or long ago.
  await sql`UPDATE event_definitions SET volume_30_day = 50 WHERE name = 'order'`
  await sql`UPDATE event_definitions SET last_seen_at = '2098-01-01' WHERE name = 'visit'`

  await sweep()

  t.match(await event('order'), { volume_30_day: 1, last_seen_at: '2099-01-01T00:00:00.000Z' })
  t.match(await event('visit'), { volume_30_day: 7, last_seen_at: new Date(seen).toISOString() })
  await patchEvent('visit', { tags: [], post_to_slack: true })
  await arrive({ event: 'visit', timestamp: seen })
  await rollUp()
  t.match(await event('visit'), { volume_30_day: 2 }, 'fields that nothing computes hold nothing')
})

t.test('how often a name was queried is what was written', async (t) => {
  const system = await shared.inNewProject()
  const { clickhouse, projectId, arrive, rollUp, sweep, event, property, patchEvent, call } = system
  await arrive({ property_types: 'eNamount' })
  await rollUp()
  t.match([await event('order'), await property('amount')], [{ query_usage_30_day: 0 }, { query_usage_30_day: 0 }])
  await patchEvent('order', { query_usage_30_day: 12 })
  t.match(await call('PATCH', `~/property_definitions/${(await property('amount')).id}`, { query_usage_30_day: 34 }), { status: 200 })

  await clickhouse.command({ query: `SELECT count() FROM events WHERE project_id = ${projectId} AND event = 'order' AND JSONHas(properties, 'amount') FORMAT Null SETTINGS log_queries = 1` })
  await arrive({ property_types: 'eNamount' })
  for (const read of [rollUp, sweep]) {
    await read()
    t.match([await event('order'), await property('amount')], [{ query_usage_30_day: 12 }, { query_usage_30_day: 34 }])
  }
})

t.test('a value written twice holds from the second time on', async (t) => {
  const { arrive, rollUp, event, patchEvent } = await shared.inNewProject()
  await arrive({})
  await rollUp()
  await patchEvent('order', { volume_30_day: 10 })
  await arrive({})
  await patchEvent('order', { volume_30_day: 20 })

  await rollUp()
  t.match(await event('order'), { volume_30_day: 20 })
  await arrive({})
  await rollUp()
  t.match(await event('order'), { volume_30_day: 3 })
})

t.test('a type that is written stays whatever arrives, until it is handed back', async (t) => {
  const { arrive, rollUp, sweep, property, call } = await shared.inNewProject()
  await arrive({ property_types: 'eNamount\0eNsize' })
  await rollUp()
  const patch = async (name: string, changes: object): Promise<void> => {
    t.match(await call('PATCH', `~/property_definitions/${(await property(name)).id}`, changes), { status: 200 })
  }
  await patch('amount', { property_type: 'DateTime' })
  await patch('size', { is_numerical: false })

  await arrive({ property_types: 'eNamount\0eNsize' })
  for (const read of [rollUp, sweep]) {
    await read()
    t.match([await property('amount'), await property('size')], [{ property_type: 'DateTime' }, { property_type: 'String' }])
  }
  await patch('amount', { property_type: null })
  await rollUp()
  t.match(await property('amount'), { property_type: 'Numeric', is_numerical: true })
})

t.test('nothing is lost when people write and delete while the roll-up runs', async (t) => {
  const { sql, arrive, rollUp, event, patchEvent, deleteEvent } = await shared.inNewProject()
  const names = Array.from({ length: 8 }, (_, index) => `busy ${index}`)
  await arrive(...names.map((name) => ({ event: name })))
  await rollUp()

  await Promise.all([
    ...names.map(async (name, index) => {
      if (index % 4 === 0) await deleteEvent(name)
      else if (index % 4 === 1) await patchEvent(name, { name: `renamed ${name}` })
      else await patchEvent(name, { volume_30_day: 100 + index })
    }),
    (async () => { for (let round = 0; round < 10; round++) await rollUp() })()
  ])
  await rollUp()

  const shown = await Promise.all(names.map(async (name) => (await event(name))?.volume_30_day))
  t.same(shown, [undefined, undefined, 102, 103, undefined, undefined, 106, 107])
  t.equal((await sql`SELECT FROM event_definitions WHERE name LIKE 'renamed busy %' AND deleted_at IS NULL`).length, 2)
})
