import t from 'tap'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import type { TestContext } from '../support/test-context.ts'
import { createDefinitionSystem, type DefinitionSystem } from './definition-system.ts'

/** Clocks that were ahead and went back, that differ between the stores, and those of clients. */

const HOUR_MS = 3_600_000
const YEAR_MS = 365 * 24 * HOUR_MS

const shared = await createDefinitionSystem(t)

/** Leaves everything as a machine does whose clock was ahead while events of `order` arrived, and went back. */
async function goAhead ({ sql, clickhouse, projectId }: DefinitionSystem, byMs: number): Promise<void> {
  const then = new Date(Date.now() + byMs)
  const text = then.toISOString().slice(0, -1)
  const times = { project_id: projectId, event: 'order', last_seen: text, last_inserted: text }
  await clickhouse.insert({
    table: 'event_volumes_by_day', format: 'JSONEachRow', values: [{ ...times, day: text.slice(0, 10), volume: 1 }]
  })
  await clickhouse.insert({
    table: 'event_property_counts',
    format: 'JSONEachRow',
    values: [{ ...times, kind: 'event', group_type: '', property: 'amount', type: 'Numeric', count: 1 }]
  })
  await sql`UPDATE event_definitions SET last_seen_at = ${then}, volume_30_day = volume_30_day + 1,
    counted_events = counted_events + 1, last_arrived_at = ${then} WHERE project_id = ${projectId}`
  await sql`UPDATE property_definitions SET last_seen_at = ${then}, counted_events = counted_events + 1,
    last_arrived_at = ${then} WHERE project_id = ${projectId}`
  await sql`UPDATE event_properties SET last_seen_at = ${then} WHERE project_id = ${projectId}`
  await sql`UPDATE roll_up_state SET read_up_to = CASE source WHEN 'daily sweep' THEN date_trunc('day', ${then}::timestamptz, 'UTC') ELSE ${then} END`
}

for (const [what, byMs] of [['a year', YEAR_MS], ['five hours', 5 * HOUR_MS]] as const) {
  t.test(`a clock that was ${what} ahead and went back leaves no time in the future, and hides nothing new`, async (t) => {
    const system = await shared.inNewProject()
    const { sql, projectId, arrive, rollUp, event, property, deleteEvent, call } = system
    await arrive({ property_types: 'eNamount' })
    await rollUp()
    await goAhead(system, byMs)

    await rollUp()
    const { last_seen_at: healed } = await event('order')
    t.ok(Date.parse(healed) <= Date.now() + 60_000, healed)
    for (const table of ['property_definitions', 'event_properties']) {
      t.equal((await sql`SELECT FROM ${sql.unsafe(table)} WHERE project_id = ${projectId} AND last_seen_at > now() + interval '1 minute'`).length, 0, table)
    }
    await rollUp()
    t.equal((await event('order')).last_seen_at, healed, 'it does not move without an event')

    await deleteEvent('order')
    t.match(await call('DELETE', `~/property_definitions/${(await property('amount')).id}`), { status: 204 })
    for (let round = 0; round < 3; round++) await rollUp()
    t.same([await event('order'), await property('amount')], [undefined, undefined], 'the times from the future are no new event')

    const latest = Date.now()
    await arrive({ timestamp: latest, property_types: 'eNamount' })
    // One row, as after a merge: the latest time of arrival lies in the future.
    await system.clickhouse.command({ query: 'OPTIMIZE TABLE event_property_counts FINAL' })
    await rollUp()
    t.ok(Date.parse((await event('order')).last_seen_at) >= latest)
    t.match(await property('amount'), { name: 'amount' })
  })
}

t.test('a deletion from the future holds until the next event, and no longer', async (t) => {
  const { sql, projectId, arrive, rollUp, event, property, deleteEvent, patchEvent, call } = await shared.inNewProject()
  await arrive({ property_types: 'eNamount' }, { event: 'visit' })
  await rollUp()
  await deleteEvent('order')
  await patchEvent('visit', { volume_30_day: 9, last_seen_at: '2020-01-01' })
  t.match(await call('DELETE', `~/property_definitions/${(await property('amount')).id}`), { status: 204 })
  await sql`UPDATE event_definitions SET deleted_at = deleted_at + interval '1 year',
    volume_written_at = volume_written_at + interval '1 year',
    last_seen_written_at = last_seen_written_at + interval '1 year' WHERE project_id = ${projectId}`
  await sql`UPDATE property_definitions SET deleted_at = deleted_at + interval '1 year' WHERE project_id = ${projectId}`

  await rollUp()
  t.match([await event('order'), await property('amount'), await event('visit')], [undefined, undefined, { volume_30_day: 9 }])
  await arrive({ property_types: 'eNamount' }, { event: 'visit' })
  await rollUp()
  t.match([await event('order'), await property('amount')], [{ volume_30_day: 2 }, { name: 'amount' }])
  t.match(await event('visit'), { volume_30_day: 2 })
  t.ok(Date.parse((await event('visit')).last_seen_at) > Date.now() - HOUR_MS)
})

for (const ahead of ['-1 hour', '1 hour']) {
  t.test(`a deletion holds when the clock of Postgres differs by ${ahead}`, async (t) => {
    const { arrive, rollUp, event, sql, projectId, databaseUrl } = await shared.inNewProject()
    const shifted = await connectShifted(t, { sql, databaseUrl }, ahead)
    const [clock] = await shifted<{ now: Date }[]>`SELECT clock_timestamp() AS now`
    t.ok(Math.abs(clock!.now.getTime() - Date.now()) > HOUR_MS - 60_000)
    await arrive({})
    await rollUp(shifted)
    await shifted`UPDATE event_definitions SET deleted_at = clock_timestamp() WHERE project_id = ${projectId}`

    await rollUp(shifted)
    await rollUp(shifted)
    t.equal(await event('order'), undefined)
    await arrive({})
    await rollUp(shifted)
    t.match(await event('order'), { volume_30_day: 2 })
  })
}

t.test('times of clients that are ahead count as the time of arrival', async (t) => {
  const { arrive, rollUp, sweep, event } = await shared.inNewProject()
  const before = Date.now()

  await arrive({ timestamp: before + 20 * HOUR_MS }, { event: 'visit', timestamp: before + 30_000 })
  await rollUp()

  const { last_seen_at: seen } = await event('order')
  t.ok(Date.parse(seen) >= before && Date.parse(seen) <= Date.now(), seen)
  t.equal((await event('visit')).last_seen_at, new Date(before + 30_000).toISOString(), 'a few seconds are left as they are')
  await sweep()
  t.equal((await event('order')).last_seen_at, seen)
})

/** Connections for which the time of Postgres is another one. */
async function connectShifted (
  t: TestContext, { sql, databaseUrl }: { sql: Sql, databaseUrl: string }, by: string
): Promise<Sql> {
  const schema = `shifted_${by.replace(/\W/g, '_')}`
  for (const name of ['clock_timestamp', 'statement_timestamp', 'now']) {
    await sql.unsafe(`CREATE SCHEMA IF NOT EXISTS ${schema};
      CREATE FUNCTION ${schema}.${name}() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.${name}() + interval '${by}' $$`)
  }
  const url = new URL(databaseUrl)
  url.searchParams.set('options', `-c search_path=${schema},pg_catalog,public`)
  const shifted = connectPostgres({ url: url.href, max: 2 })
  t.teardown(() => shifted.end({ timeout: 1 }))
  return shifted
}
