import t from 'tap'
import { pino } from 'pino'
import { createMetrics } from '../../platform/metrics.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { rollUpDefinitions, startRollUp } from './roll-up-definitions.ts'

const DAY_MS = 86_400_000

interface Stores {
  clickhouse: Awaited<ReturnType<typeof createTestClickHouse>>['client']
  sql: Awaited<ReturnType<typeof createTestPostgres>>['sql']
  insert: (events: SentEvent[]) => Promise<void>
  rollUp: () => Promise<void>
}

interface SentEvent {
  event?: string
  project_id?: number
  timestamp?: number
  property_types?: string
}

async function createStores (t: TestContext): Promise<Stores> {
  const [{ client: clickhouse }, { sql }] = await Promise.all([createTestClickHouse(t), createTestPostgres(t)])
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one') ON CONFLICT DO NOTHING`
  return {
    clickhouse,
    sql,
    async insert (events) {
      await clickhouse.insert({
        table: 'events',
        format: 'JSONEachRow',
        values: events.map((event) => ({
          project_id: 1, uuid: crypto.randomUUID(), event: 'order', distinct_id: 'd', ...event,
          timestamp: new Date(event.timestamp ?? Date.now()).toISOString().slice(0, -1)
        }))
      })
    },
    async rollUp () {
      await rollUpDefinitions({ clickhouse, sql }, { minPauseMs: 0 })
    }
  }
}

t.test('older events that come later say when an event and its properties were first seen', async (t) => {
  const { clickhouse, sql, insert, rollUp } = await createStores(t)
  const now = Date.now() - 5000
  const first = new Date(now - 400 * DAY_MS)
  const firstSeen = async (): Promise<unknown> => (await sql`
    SELECT name, created_at FROM event_definitions UNION ALL SELECT name, created_at FROM property_definitions ORDER BY name`).map((row) => ({ ...row }))
  await insert([{ timestamp: now, property_types: 'eSplan' }])
  await rollUp()
  t.same(await firstSeen(), [{ name: 'order', created_at: new Date(now) }, { name: 'plan', created_at: new Date(now) }])

  // One import has a whole day, and more.
  await insert([first.getTime() + DAY_MS, first.getTime() + 3_600_000, first.getTime()].map((timestamp) => ({ timestamp, property_types: 'eSplan' })))
  for (const table of ['event_volumes_by_day', 'event_property_counts']) await clickhouse.command({ query: `OPTIMIZE TABLE ${table} FINAL` })
  await rollUp()
  const known = [{ name: 'order', created_at: first }, { name: 'plan', created_at: first }]
  t.same(await firstSeen(), known)

  await insert([{ timestamp: now, property_types: 'eSplan' }])
  await rollUp()
  t.same(await firstSeen(), known, 'and newer ones change nothing')
})

t.test('writes volume, times, types and pairs of the events sent', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)
  const latest = Date.now() - 5000

  await insert([
    { timestamp: latest, property_types: 'eSplan\0eNamount\0e?tags\0pSemail\0gNcompany\x01seats' },
    { timestamp: latest - DAY_MS, property_types: 'eSplan' },
    { timestamp: latest - 31 * DAY_MS },
    { event: 'other', project_id: 99 }
  ])
  await rollUp()

  t.match(await sql`SELECT * FROM event_definitions`, [{
    project_id: 1, name: 'order', volume_30_day: 2, last_seen_at: new Date(latest), last_calculated_at: Date
  }])
  t.same((await sql`SELECT type, group_type, name, property_type FROM property_definitions ORDER BY 1, 3`).map(Object.values), [
    ['event', '', 'amount', 'Numeric'],
    ['event', '', 'plan', 'String'],
    ['event', '', 'tags', null],
    ['group', 'company', 'seats', 'Numeric'],
    ['person', '', 'email', 'String']
  ])
  t.same((await sql`SELECT event, property FROM event_properties ORDER BY 2`).map(Object.values), [
    ['order', 'amount'], ['order', 'plan'], ['order', 'tags']
  ])
})

t.test('corrects a wrong first type, but keeps one that a user chose', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)
  await insert([{ property_types: 'eSamount\0eSsize' }])
  await rollUp()
  await sql`UPDATE property_definitions SET property_type = 'DateTime', property_type_is_manual = true WHERE name = 'size'`

  await insert([{ property_types: 'eNamount\0eNsize' }, { property_types: 'eNamount\0eNsize' }])
  await rollUp()

  t.same((await sql`SELECT name, property_type FROM property_definitions ORDER BY 1`).map(Object.values), [
    ['amount', 'Numeric'], ['size', 'DateTime']
  ])
})

t.test('reduces volumes as days pass', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)
  await insert([{}])
  await rollUp()
  await sql`UPDATE event_definitions SET volume_30_day = 1000`
  await sql`UPDATE roll_up_state SET read_up_to = read_up_to + interval '10 minutes' WHERE source = 'recent changes'`
  await sql`UPDATE roll_up_state SET read_up_to = '2020-01-01' WHERE source = 'daily sweep'`

  await rollUp()

  t.match(await sql`SELECT volume_30_day FROM event_definitions`, [{ volume_30_day: 1 }])
})

t.test('accepts names that Postgres cannot store', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)

  await insert([{ event: 'a\0b' }, { event: 'a\ufffdb' }, { event: 'ab' }, { event: 'ab' }, { event: 'it\'s "quoted" \\ 🎉' }])
  await rollUp()

  t.same((await sql`SELECT name, volume_30_day FROM event_definitions ORDER BY 1`).map(Object.values), [
    ['ab', 2], ['a\ufffdb', 2], ['it\'s "quoted" \\ 🎉', 1]
  ])
})

t.test('continues after a store was unavailable, one process at a time', async (t) => {
  const { sql, clickhouse, insert } = await createStores(t)
  const logger = pino({ level: 'silent' })
  await sql`ALTER TABLE roll_up_state RENAME TO renamed`
  const start = (): ReturnType<typeof startRollUp> =>
    startRollUp({ clickhouse, sql, intervalMs: 100, metrics: createMetrics('test'), logger })
  const [one, two] = [start(), start()]
  t.teardown(() => Promise.all([one.stop(), two.stop()]))

  await waitFor(() => one.lastError() !== null)
  await sql`ALTER TABLE renamed RENAME TO roll_up_state`
  await insert([{}])
  await waitFor(async () => (await sql`SELECT FROM event_definitions WHERE volume_30_day = 1`).length === 1)

  await waitFor(() => one.lastError() === null && two.lastError() === null)
})
