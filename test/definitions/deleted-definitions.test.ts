import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { createDefinitionSystem, type DefinitionSystem } from './definition-system.ts'

/** What a person deleted or renamed stays so until an event of that name arrives, whatever the roll-up reads. */

const DAY_MS = 86_400_000

const shared = await createDefinitionSystem(t)

/** Every way in which the roll-up reads what it has read before. */
async function readAgain ({ sql, rollUp, sweep }: DefinitionSystem): Promise<void> {
  await rollUp()
  await rollUp()
  await sweep()
  // As a database that was never rolled up: another process, or a restored backup.
  await sql`DELETE FROM roll_up_state`
  await rollUp()
}

t.test('a deleted event comes back with the next event of its name, and with nothing else', async (t) => {
  const system = await shared.inNewProject()
  const { arrive, rollUp, event, patchEvent, deleteEvent, call } = system
  await arrive({ timestamp: Date.now() - DAY_MS }, {}, { event: 'other' })
  await rollUp()
  await patchEvent('order', { tags: ['kept?'], volume_30_day: 77, created_at: '2020-01-01', last_seen_at: '2021-01-01' })
  const { id } = await event('order')

  await deleteEvent('order')

  await readAgain(system)
  t.equal(await event('order'), undefined)
  for (const method of ['GET', 'DELETE'] as const) t.match(await call(method, `~/event_definitions/${id}`), { status: 404 })
  t.match(await call('PATCH', `~/event_definitions/${id}`, { tags: ['x'] }), { status: 404 })
  t.equal((await call('GET', '~/event_definitions')).body.count, 1)
  await arrive({ event: 'other' })
  await rollUp()
  t.equal(await event('order'), undefined, 'an event of another name does not count')

  const latest = Date.now()
  await arrive({ timestamp: latest })
  await rollUp()
  const back = await event('order')
  t.match(back, { volume_30_day: 3, tags: [], last_seen_at: new Date(latest).toISOString() }, 'it counts all its events again')
  t.not(back.id, id)
  t.ok(Date.parse(back.created_at) > Date.now() - 2 * DAY_MS, 'and knows when it was first seen')
  await deleteEvent('order')
  await readAgain(system)
  t.equal(await event('order'), undefined, 'it can be deleted again')
})

t.test('deleted properties of events, persons and groups come back with the next event that carries them', async (t) => {
  const system = await shared.inNewProject()
  const { sql, projectId, arrive, rollUp, property, call } = system
  await sql`INSERT INTO group_types VALUES (${projectId}, 'company', 0)`
  const queries = { plan: 'type=event', email: 'type=person', seats: 'type=group&group_type_index=0' }
  const found = async (): Promise<string[]> => {
    const entries = Object.entries(queries)
    const names = await Promise.all(entries.map(async ([name, query]) => (await property(name, query))?.name))
    return names.filter((name) => name !== undefined)
  }
  await arrive({ property_types: 'eSplan\0pSemail\0gNcompany\x01seats' }, { event: 'visit', property_types: 'eSplan' })
  await rollUp()
  t.same(await found(), ['plan', 'email', 'seats'])

  for (const [name, query] of Object.entries(queries)) {
    const { id } = await property(name, query)
    await call('PATCH', `~/property_definitions/${id}`, { property_type: 'DateTime', tags: ['x'] })
    t.match(await call('DELETE', `~/property_definitions/${id}`), { status: 204 })
    t.match(await call('PATCH', `~/property_definitions/${id}`, { tags: [] }), { status: 404 })
  }

  await readAgain(system)
  t.same(await found(), [])
  t.equal((await call('GET', '~/property_definitions')).body.count, 0)
  await arrive({ property_types: 'eSother' })
  await rollUp()
  t.same(await found(), [], 'another property of the same event does not count')
  for (const [types, names] of [['pSemail', ['email']], ['gNcompany\x01seats', ['email', 'seats']]] as const) {
    await arrive({ property_types: types })
    await rollUp()
    t.same(await found(), names)
  }
  await arrive({ event: 'new', property_types: 'eSplan' })
  await rollUp()
  t.match(await property('plan', 'event_names=["order"]'), {
    property_type: 'String', tags: [], is_seen_on_filtered_events: 'true'
  }, 'with the type that all its values have, and on the events that carried it before')
})

t.test('a deletion in the middle of a round holds', async (t) => {
  const { sql, arrive, rollUp, sweep, event } = await shared.inNewProject()
  await arrive({})
  await rollUp()
  await arrive({})
  let round: Promise<void> | undefined

  await sql.begin(async (transaction) => {
    await transaction`SELECT FROM event_definitions FOR UPDATE`
    round = rollUp()
    // The round has read both events, and waits for the row.
    await waitFor(async () => (await sql`SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%read-event-volumes%'`).length === 1)
    await transaction`UPDATE event_definitions SET deleted_at = clock_timestamp()`
  })
  await round

  await rollUp()
  await sweep()
  t.equal(await event('order'), undefined)
  await arrive({})
  await rollUp()
  t.match(await event('order'), { volume_30_day: 3 })
})

t.test('an event that was stored before the deletion, and counted after it, does not bring it back', async (t) => {
  const { arrive, rollUp, event, deleteEvent } = await shared.inNewProject()
  await arrive({})
  await rollUp()
  await arrive({})
  await deleteEvent('order')

  await rollUp()
  t.equal(await event('order'), undefined)
  await rollUp()
  t.equal(await event('order'), undefined)
})

t.test('a renamed event leaves its old name deleted, and shows what it showed until the new name arrives', async (t) => {
  const system = await shared.inNewProject()
  const { arrive, rollUp, event, patchEvent, call } = system
  const before = Date.now() - 1000
  await arrive({ timestamp: before }, { timestamp: before })
  await rollUp()
  const { id } = await event('order')
  await patchEvent('order', { name: 'Order', tags: ['shop'] })

  await readAgain(system)
  t.equal(await event('order'), undefined)
  const renamed = { id, volume_30_day: 2, last_seen_at: new Date(before).toISOString(), tags: ['shop'] }
  t.match(await event('Order'), renamed)

  await arrive({ event: 'Order' })
  await arrive({})
  await rollUp()
  t.match(await event('Order'), { id, volume_30_day: 1, tags: ['shop'] }, 'it counts the events of its name')
  t.match(await event('order'), { volume_30_day: 3, tags: [] }, 'the old name is a new definition')
  t.not((await event('order')).id, id)
  t.match(await call('PATCH', `~/event_definitions/${id}`, { name: 'order' }), { status: 400, body: { code: 'unique' } })
})

t.test('a name that was deleted can be given to another definition, and back', async (t) => {
  const system = await shared.inNewProject()
  const { arrive, rollUp, event, patchEvent, deleteEvent, property, call } = system
  await arrive({ property_types: 'eNamount' }, { event: 'sale', property_types: 'eStotal' })
  await rollUp()
  const { id } = await event('order')
  await deleteEvent('sale')

  await patchEvent('order', { name: 'sale' })
  await readAgain(system)
  t.match([await event('order'), await event('sale')], [undefined, { id, volume_30_day: 1 }])
  await patchEvent('sale', { name: 'order' })
  await readAgain(system)
  t.match([await event('order'), await event('sale')], [{ id, volume_30_day: 1 }, undefined])

  const amount = (await property('amount')).id
  t.match(await call('DELETE', `~/property_definitions/${(await property('total')).id}`), { status: 204 })
  t.match(await call('PATCH', `~/property_definitions/${amount}`, { name: 'total' }), { status: 200, body: { property_type: 'Numeric' } })
  await readAgain(system)
  t.match([await property('amount'), await property('total')], [undefined, { id: amount, property_type: 'Numeric' }])
  await arrive({ property_types: 'eStotal' })
  await rollUp()
  t.match(await property('total'), { id: amount, property_type: 'String' }, 'the type of its name, once it arrives')
})
