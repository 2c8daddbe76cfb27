import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { openIngestBucket } from '../../pipeline/accounting/keep-watermark.ts'
import { makeEvents, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { startTestPartition, startTestStores, waitUntilStored } from '../../pipeline/testing/start-test-partition.ts'
import { createLogger } from '../../platform/logger.ts'
import { presenceKey } from '../../schema/wire/ingest-presence.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { type Captured, runCaptured, startApi } from '../testing/run-captured.ts'

t.test('prints the equation of each project, and fails when the table was changed by hand', async (t) => {
  const stores = await startTestStores(t)
  const { nats, clickhouse } = stores
  const postgres = await createTestPostgres(t)
  await postgres.sql`INSERT INTO projects (id, name) VALUES (2, 'two')`
  const run = async (line: string, env = { NATS_URL: nats.url }): Promise<Captured> =>
    await runCaptured(['audit', ...line.split(' ')], { CLICKHOUSE_URL: clickhouse.url, DATABASE_URL: postgres.url, ...env })
  t.match(await run('--project 2'), { code: 0, out: /nothing to compare: the pipeline has kept no books yet/ })

  await startTestPartition(t, stores)
  const events = makeEvents(10, (index) => ({ project_id: 1 + index % 2 }))
  await publishEvents(stores.connection, events)
  await publishEvents(stores.connection, events.slice(0, 4))
  await waitUntilStored(stores)

  t.match(await run('--project 2'), { code: 0, out: /\n2 +7 +0 +5 +2 +0 +0 +0 +0 +0 +0\n[^]*drift: 0/ })
  t.match(await run('--to 2026-01-01'), { code: 0, out: /nothing to compare: the books begin at 20/ })

  await clickhouse.client.command({ query: `DELETE FROM events WHERE uuid = '${events[3]!.uuid}'` })
  const { code, out, err } = await run('--json')
  t.equal(code, 1)
  t.match(err, /1 events missing, 0 extra/)
  t.match(JSON.parse(out), {
    projects: [
      { project: 1, accepted: 7, stored: 5, duplicates: 2, missing: 0 },
      { project: 2, accepted: 7, stored: 4, duplicates: 2, missing: 1, changing: 0 }
    ],
    drift: [{ project: 2, missing: 1, extra: 0 }]
  })
  t.match(await run('--project 1'), { code: 0 })
  t.match(await run('--project 999'), { code: 1, out: '', err: /there is no project 999/ })

  t.match(await run('--project 2', { NATS_URL: 'nats://127.0.0.1:9' }), { code: 3, out: '', err: /nats does not answer/ })
})

t.test('says which argument is wrong', async (t) => {
  const run = async (line: string): Promise<Captured> => await runCaptured(['audit', ...line.split(' ')], {})

  t.match(await run('--from yesterday'), { code: 2, err: /--from.*ISO 8601/ })
  t.match(await run('--to 1969-01-01'), { code: 2, err: /--to.*1970/ })
  t.match(await run('--project none'), { code: 2, err: /--project/ })
  t.match(await run('--from 2026-01-02 --to 2026-01-01'), { code: 2, err: /--from must be before --to/ })
})

t.test('shows the watermark and who holds it back, and forgets a folder that is lost', async (t) => {
  const { nats, clickhouse, connection } = await startTestStores(t)
  let aheadMs = 60_000
  const logger = createLogger({ component: 'test', level: 'silent' })
  const deps = { clickhouse: clickhouse.client, now: () => Date.now() + aheadMs }
  const api = await startApi(t, { ...deps, nats: createNatsOnDemand({ url: nats.url, logger }) })
  const run = async (line: string): Promise<Captured> => await api.run('watermark', ...line.split(' '))
  t.match(JSON.parse((await run('--json')).out), { complete_through: null, held_by: null, ingest: [] })

  const bucket = await openIngestBucket(connection, { replicas: 1 })
  const entry = { host: 'one', folder: '/spool/0', publishedThrough: Date.parse('2026-01-02'), inFlight: 0, spoolBytes: 9, version: '1' }
  await bucket.put(presenceKey('ab'), JSON.stringify(entry))
  await clickhouse.client.insert({
    table: 'watermark_reached', format: 'JSONEachRow',
    values: [{ id: 0, complete_through: '2026-01-02', state: { updated_at: new Date().toISOString().slice(0, -1), held_by: 'ingest ab' } }]
  })
  const { out } = await run('--json')
  t.match(JSON.parse(out), {
    complete_through: '2026-01-02T00:00:00.000Z', held_by: 'ingest ab', ingest: [{ id: 'ab', host: 'one', spool_bytes: 9 }]
  })
  const { run: runApart } = await startApi(t, deps)
  t.match(await runApart('watermark'), {
    code: 3, out: /^complete_through +2026-01-02/, err: 'nats does not answer: the ingest processes are not listed.\n'
  })
  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes: ['project:write'], projectIds: null, expiresAt: null })
  t.match(await runCaptured(['watermark', 'forget', 'ab', '--yes'], { ...api.env, MILLRACE_KEY: key }), { code: 1, err: /scope '\*'/ })

  t.match(await run('forget ab'), { code: 0, err: /add --yes/i, out: /ab +one/ })
  t.match(await run('forget cd'), { code: 1, err: /no spool folder has the id cd/ })
  t.match(await run('forget cd --yes'), { code: 1, err: /no spool folder has the id cd/ })
  aheadMs = -60_000
  t.match(await run('forget ab --yes'), { code: 1, err: /runs: stop it instead/ })
  aheadMs = 60_000
  t.match(await run('forget ab --yes'), { code: 0, out: /ab +one/, err: /no longer waits/ })
  t.match(JSON.parse((await run('--json')).out), { ingest: [] })

  await clickhouse.client.command({ query: 'TRUNCATE TABLE watermark_reached' })
  await clickhouse.client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3), (now64(3) - INTERVAL 1 MINUTE, '')" })
  t.match(JSON.parse((await run('--json')).out), { held_by: /^pipeline: does not report since / })
})
