import { pino } from 'pino'
import t from 'tap'
import { createMetrics } from '../../platform/metrics.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { clockLead, compareClocks } from './clocks.ts'
import { type LastRound, rollUpDefinitions, startRollUp } from './roll-up-definitions.ts'
import { pruneDefinitions } from './roll-up-source.ts'

const DAY_MS = 86_400_000
const LIMITS = { events: 2000, properties: 5000, pairs: 100_000, retentionDays: 90 }

interface Stores {
  clickhouse: Awaited<ReturnType<typeof createTestClickHouse>>['client']
  sql: Awaited<ReturnType<typeof createTestPostgres>>['sql']
  insert: (events: SentEvent[]) => Promise<void>
  rollUp: (limits?: typeof LIMITS) => Promise<void>
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
    async rollUp (limits = LIMITS) {
      await rollUpDefinitions({ clickhouse, sql }, { minPauseMs: 0, limits })
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

t.test('while no name is new, a round reads nothing until its time has come', async (t) => {
  const { clickhouse, sql, insert } = await createStores(t)
  let last: LastRound | undefined
  const rollUp = async (): Promise<string> => {
    const outcome = await rollUpDefinitions({ clickhouse, sql }, { minPauseMs: 0, limits: LIMITS, last })
    if (outcome.kind === 'done') last = outcome.last
    return outcome.kind
  }
  const volumes = async (): Promise<unknown> => (await sql`SELECT name, volume_30_day FROM event_definitions ORDER BY name`).map(Object.values)
  await insert([{ property_types: 'eSplan' }])
  t.equal(await rollUp(), 'done')
  t.equal(await rollUp(), 'done', 'the sweep of the day was not a round of its own')
  await insert([{ property_types: 'eSplan' }])
  t.equal(await rollUp(), 'skipped')
  t.same(await volumes(), [['order', 1]])

  await insert([{ property_types: 'eSplan\0eNamount' }])
  t.equal(await rollUp(), 'done', 'a new property')
  t.same(await volumes(), [['order', 3]])
  await insert([{ event: 'refund' }])
  t.equal(await rollUp(), 'done', 'a new event')
  t.same(await volumes(), [['order', 3], ['refund', 1]])

  await insert([{ event: 'refund' }])
  t.equal(await rollUp(), 'skipped')
  last = undefined
  t.equal(await rollUp(), 'done')
  t.same(await volumes(), [['order', 3], ['refund', 2]])
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

  await insert([{ event: 'a\0b', property_types: 'eSp' }, { event: 'a\ufffdb', property_types: 'eSp' }, { event: 'ab' }, { event: 'ab' }, { event: 'it\'s "quoted" \\ 🎉' }])
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
    startRollUp({ clickhouse, sql, intervalMs: 100, limits: LIMITS, metrics: createMetrics('test'), logger })
  const [one, two] = [start(), start()]
  t.teardown(() => Promise.all([one.stop(), two.stop()]))

  await waitFor(() => one.lastError() !== null)
  await sql`ALTER TABLE renamed RENAME TO roll_up_state`
  await insert([{}])
  await waitFor(async () => (await sql`SELECT FROM event_definitions WHERE volume_30_day = 1`).length === 1)

  await waitFor(() => one.lastError() === null && two.lastError() === null)
})

t.test('bounds new definitions by project and day; known ones and other projects are not affected', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)
  await sql`INSERT INTO projects (id, name) VALUES (2, 'two')`
  const limits = { ...LIMITS, events: 5, properties: 7, pairs: 9 }
  await insert([{ event: 'known', property_types: 'eSplan' }])
  await rollUp(limits)

  const flood = Array.from({ length: 50 }, (_, index) => ({ event: `flood ${index}`, property_types: `eSa${index}\0eSb${index}` }))
  await insert([...flood, { event: 'known', property_types: 'eSplan' }, { event: 'calm', project_id: 2, property_types: 'eSplan' }])
  await rollUp(limits)
  await rollUp(limits)

  const count = async (table: string): Promise<number[]> =>
    (await sql.unsafe<{ rows: number }[]>(`SELECT count(*)::integer AS rows FROM ${table} GROUP BY project_id ORDER BY project_id`)).map(({ rows }) => rows)
  t.same(await count('event_definitions'), [5, 1])
  t.same(await count('property_definitions'), [7, 1])
  t.same(await count('event_properties'), [9, 1])
  t.match(await sql`SELECT volume_30_day FROM event_definitions WHERE name = 'known'`, [{ volume_30_day: 2 }])

  await sql`UPDATE definition_days SET day = day - 1`
  await rollUp(limits)
  t.same(await count('event_definitions'), [10, 1], 'another day has room for others')
})

t.test('reads a project with many names in slices, after all others, and shows how fresh it is', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)
  await sql`INSERT INTO projects (id, name) VALUES (2, 'two')`
  await rollUp()
  const names = 45_000
  await insert(Array.from({ length: names / 1000 }, (_, event) => ({
    event: `event ${event}`, property_types: Array.from({ length: 1000 }, (_, index) => `eSp${index}`).join('\0')
  })))
  await insert([{ event: 'calm', project_id: 2 }])
  const pairs = async (): Promise<number> => Number((await sql<{ pairs: number }[]>`SELECT count(*) AS pairs FROM event_properties`)[0]?.pairs)
  const behind = async (): Promise<object[]> => [...await sql`SELECT project_id, as_of IS NOT NULL AS is_stale FROM roll_up_behind`]

  await rollUp()
  t.equal((await sql`SELECT FROM event_definitions WHERE name = 'calm'`).length, 1)
  t.ok(await pairs() < names)
  t.same(await behind(), [{ project_id: 1, is_stale: true }])

  // By the clock the burst is over.
  await sql`UPDATE roll_up_state SET read_up_to = now() + interval '10 minutes' WHERE source = 'recent changes'`
  for (let round = 0; round < 10 && await pairs() < names; round++) await rollUp()
  t.equal(await pairs(), names)
})

t.test('prunes definitions no longer seen, unless a user changed them, and does not read them again', async (t) => {
  const { sql, clickhouse, insert, rollUp } = await createStores(t)
  await insert(['seen', 'gone', 'described', 'named'].map((event) => ({ event, property_types: `eS${event}` })))
  await rollUp()
  await sql`INSERT INTO event_definitions (project_id, name) VALUES (1, 'planned')`
  await sql`UPDATE event_definitions SET description = 'the first of a funnel' WHERE name = 'described'`
  await sql`UPDATE event_definitions SET query_usage_30_day = 1 WHERE name = 'named'`
  await sql`UPDATE property_definitions SET verified = true WHERE name = 'described'`
  for (const table of ['event_volumes_by_day', 'event_property_counts']) {
    await clickhouse.command({
      query: `ALTER TABLE ${table} UPDATE last_inserted = now64(3) - toIntervalDay(91) WHERE event != 'seen' SETTINGS mutations_sync = 1`
    })
  }
  for (const table of ['event_definitions', 'property_definitions', 'event_properties']) {
    await sql.unsafe(`UPDATE ${table} SET last_arrived_at = last_arrived_at - interval '91 days' WHERE
      ${table === 'event_properties' ? 'event' : 'name'} <> 'seen'`)
  }
  const sweep = async (): Promise<void> => {
    await sql`UPDATE roll_up_state SET read_up_to = '2020-01-01' WHERE source = 'daily sweep'`
    await rollUp()
  }
  const names = async (table: string, column = 'name'): Promise<unknown[]> =>
    (await sql.unsafe(`SELECT ${column} FROM ${table} ORDER BY 1`)).flatMap(Object.values)

  for (const round of ['first', 'second']) {
    await sweep()
    t.same(await names('event_definitions'), ['described', 'named', 'planned', 'seen'], round)
    t.same(await names('property_definitions'), ['described', 'seen'], round)
    t.same(await names('event_properties', 'event'), ['seen'], round)
  }
  await insert([{ event: 'gone' }])
  await rollUp()
  t.same(await names('event_definitions'), ['described', 'gone', 'named', 'planned', 'seen'])
})

t.test('prunes what was not seen for a week where there is far too much of it', async (t) => {
  const { sql, insert, rollUp } = await createStores(t)
  await insert(Array.from({ length: 40 }, (_, index) => ({ event: `e${index}` })))
  await rollUp()
  await sql`UPDATE event_definitions SET last_arrived_at = now() - interval '8 days' WHERE name > 'e1'`
  // They were read, so that they only need pruning.
  await sql`UPDATE roll_up_state SET read_up_to = now() + interval '10 minutes' WHERE source = 'recent changes'`
  await pruneDefinitions(sql, 1, { ...LIMITS, events: 1 })

  t.same((await sql`SELECT count(*)::integer AS rows FROM event_definitions`), [{ rows: 10 }])
})

t.test('finds no difference between the clocks of one machine', async (t) => {
  const [{ client }, { sql }] = await Promise.all([createTestClickHouse(t), createTestPostgres(t)])
  const before = Date.now()

  const { nowMs, today, clockLeadMs } = await compareClocks(client, sql)

  t.equal(clockLeadMs, 0)
  t.ok(nowMs >= before && nowMs <= Date.now())
  t.match(today, /^\d{4}-\d\d-\d\d$/)
})

t.test('finds the smallest difference that fits the readings', async (t) => {
  for (const [beforeMs, nowMs, afterMs, lead] of [
    [1000.2, 1000, 1000.9, 0], [1000, 1500, 2000, 0], [1000, 1000, 9000, 0], [1000, 9000, 9000, 0],
    [1000, 6010, 1020, 4990], [6000, 1010, 6020, -4989], [1000.5, 1000, 1000.6, 0], [1000.5, 999, 1000.6, 0],
    [1000.5, 998, 1000.6, -1]
  ] as const) {
    t.equal(clockLead({ beforeMs, nowMs, afterMs }), lead, `${beforeMs} ${nowMs} ${afterMs}`)
  }
})
