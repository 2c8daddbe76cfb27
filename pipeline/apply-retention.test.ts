import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { createTestClickHouse, createTestPostgres } from '../test/support/test-stores.ts'
import { startTestNats } from '../test/support/test-processes.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { connectNats } from '../platform/nats/connect-nats.ts'
import { publishDeadLetter } from '../platform/dead-letters/publish-dead-letter.ts'
import { ensureStreams } from '../platform/nats/prepare-jetstream.ts'
import { createLogger } from '../platform/logger.ts'
import { listRetention } from '../platform/retention-rules.ts'
import { groupByCutoff } from '../schema/retention.ts'
import { applyRetention, type RetentionDeps } from './apply-retention.ts'
import { findSettledMoment } from './persons/deletion/event-removals.ts'

const NOW = Date.parse('2026-06-15T12:00:00Z')
const DAY_MS = 86_400_000

t.test('keeps the days of each project: whole months are dropped, the rest deleted, volumes stay', async (t) => {
  const deps = await makeDeps(t)
  const { sql, clickhouse } = deps
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one'), (2, 'two'), (3, 'three') ON CONFLICT DO NOTHING`
  const day = (ago: number): string => new Date(NOW - ago * DAY_MS).toISOString().slice(0, 10)
  await clickhouse.insert({
    table: 'events',
    values: [1, 2, 3].flatMap((project) => [0, 5, 10, 11, 90, 91, 200].map((ago) => ({
      project_id: project, uuid: crypto.randomUUID(), event: 'e', distinct_id: 'u', timestamp: `${day(ago)} 03:00:00`
    }))),
    format: 'JSONEachRow'
  })
  const storedAt = Date.now()
  // A round takes what was stored before the longest insert that runs, which may be one of another test.
  await waitFor(async () => await findSettledMoment(deps) > storedAt)
  const read = async (): Promise<string[]> => (await (await clickhouse.query({
    query: 'SELECT project_id AS p, dateDiff(\'day\', toDate(timestamp), {today: Date}) AS ago FROM events ORDER BY p, ago',
    query_params: { today: day(0) },
    format: 'JSONEachRow'
  })).json<{ p: number, ago: string }>()).map(({ p, ago }) => `${p}:${ago}`)

  t.match(await applyRetention(deps), { events: 0, partitions: 0 }, 'without a rule everything stays')
  await sql`INSERT INTO retention (what, project_id, days) VALUES ('events', NULL, 90), ('events', 2, 10)`
  const outcome = await applyRetention(deps)

  t.equal(outcome.partitions, 1, 'the month of 200 days ago')
  const mark = "SELECT 1 AS x FROM system.mutations WHERE database = currentDatabase() AND command LIKE '(DELETE IN PARTITION%'"
  t.equal((await (await clickhouse.query({ query: mark, format: 'JSONEachRow' })).json()).length, 1, 'pipelines see that it is gone')
  t.equal(outcome.events, 2 * 1 + 3)
  const kept = ['1:0', '1:5', '1:10', '1:11', '1:90', '2:0', '2:5', '2:10', '3:0', '3:5', '3:10', '3:11', '3:90']
  await waitFor(async () => (await read()).length === kept.length)
  t.same(await read(), kept)
  t.match(await applyRetention(deps), { events: 0, partitions: 0 }, 'a second round finds nothing')
  const volumes = await (await clickhouse.query({ query: 'SELECT sum(volume) AS n FROM event_volumes', format: 'JSONEachRow' })).json<{ n: number }>()
  t.equal(Number(volumes[0]?.n), 21)

  await sql`INSERT INTO retention (what, project_id, days) VALUES ('events', 3, NULL)`
  await sql`DELETE FROM retention WHERE project_id = 2`
  t.same(await listRetention(sql), [
    { what: 'events', projectId: null, days: 90 }, { what: 'events', projectId: 3, days: null }
  ])
})

t.test('dead letters older than their days go', async (t) => {
  const deps = await makeDeps(t)
  const letter = { stage: 'writer', reason: 'refused', error: 'x', subject: 'events.live.0', sequence: 1, headers: {}, body: new Uint8Array(1) } as const
  await publishDeadLetter(deps.connection, { ...letter, id: 'a' })
  await deps.sql`INSERT INTO retention (what, project_id, days) VALUES ('dead_letters', NULL, 30)`

  t.equal((await applyRetention({ ...deps, now: () => Date.now() + 29 * DAY_MS })).deadLetters, 0)
  t.equal((await applyRetention({ ...deps, now: () => Date.now() + 31 * DAY_MS })).deadLetters, 1)
  t.equal((await (await jetstreamManager(deps.connection)).streams.info('DEAD_LETTER')).state.messages, 0)
})

t.test('a project of its own rule leaves the group of the deployment', async (t) => {
  t.same(groupByCutoff([
    { what: 'events', projectId: null, days: 1 }, { what: 'events', projectId: 2, days: null }, { what: 'dead_letters', projectId: null, days: 3 }
  ], [1, 2, 3], NOW), [{ projectIds: [1, 3], before: '2026-06-14' }, { projectIds: [2], before: null }])
})

async function makeDeps (t: Parameters<typeof createTestPostgres>[0]): Promise<RetentionDeps> {
  const { sql } = await createTestPostgres(t)
  const { client } = await createTestClickHouse(t)
  const { url } = await startTestNats(t)
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url, name: 'test', logger })
  t.teardown(async () => { await connection.close() })
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 10_000_000, deadLetterMaxBytes: 10_000_000 })
  return { sql, clickhouse: client, connection, now: () => NOW }
}
