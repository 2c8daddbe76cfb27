import t from 'tap'
import { createLogger } from '../platform/logger.ts'
import { listenPostgres } from '../platform/postgres/listen-postgres.ts'
import { createTestPostgres } from '../test/support/test-stores.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { listenForWork } from './announced-work.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const { url, sql } = await createTestPostgres(t)
const work = listenForWork({ url, logger })
const counts = { idle: 0, busy: 0 }
const round = (kind: keyof typeof counts) => async () => {
  counts[kind]++
  return kind === 'busy'
}
const loops = [work.run({ everyMs: 10, run: round('idle') }), work.run({ everyMs: 10, run: round('busy') })]
// Rounds without an announcement come every 15 seconds, so what is announced is counted by itself.
let announced = 0
const announcements = listenPostgres({ url, channel: 'millrace_work', logger, onChange: () => { announced++ } })
t.teardown(async () => { await Promise.all([...loops, work, announcements].map(async (each) => await each.stop())) })
// The first round, and the one that the connection begins.
await waitFor(() => counts.idle > 1 && counts.busy > 2 && announced > 0)

// Triggers of statements do not need rows.
const insert = (table: string): string => `INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM ${table} WHERE false`
const ANNOUNCED = [
  ...['person_deletions', 'person_repairs', 'notifications', 'export_windows', 'export_erasures', 'backups', 'exports', 'alerts', 'cohorts', 'targets'].map(insert),
  'UPDATE exports SET paused = true WHERE false',
  'UPDATE alerts SET enabled = true WHERE false',
  'UPDATE cohorts SET refresh_requested_at = now() WHERE false',
  'UPDATE targets SET enabled = true WHERE false',
  'UPDATE event_definitions SET post_to_slack = true WHERE false'
]

for (const statement of ANNOUNCED) {
  t.test(`work that has nothing to do begins a round with ${statement.replace(' OVERRIDING SYSTEM VALUE', '')}`, async (t) => {
    const before = { rounds: counts.idle, announced }

    await sql.unsafe(statement)

    await waitFor(() => counts.idle > before.rounds && announced > before.announced)
    t.equal(announced, before.announced + 1)
  })
}

t.test('what the pipeline writes with each event or delivery announces nothing', async (t) => {
  const before = announced

  await sql`UPDATE targets SET last_delivered_at = now() WHERE false`
  await sql`UPDATE event_definitions SET last_seen_at = now() WHERE false`
  await sql.unsafe(insert('event_definitions'))
  await sql.unsafe(insert('backups'))

  await waitFor(() => announced > before)
  t.equal(announced, before + 1)
})

t.test('work that announces more of itself runs at its interval', async (t) => {
  let rounds = 0
  const loop = work.run({
    everyMs: 500,
    async run () {
      rounds++
      await sql.unsafe(insert('notifications'))
      return true
    }
  })
  await new Promise((resolve) => setTimeout(resolve, 800))
  await loop.stop()
  t.ok(rounds <= 2, `${rounds} rounds`)
})

t.test('a connection that comes back begins a round: an announcement may have been missed', async (t) => {
  const before = counts.idle

  await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`

  await waitFor(() => counts.idle > before)
  t.pass()
})
