import t from 'tap'
import { makeEvents, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { startTestPartition, startTestStores, waitUntilStored } from '../../pipeline/testing/start-test-partition.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { type Captured, runCaptured } from '../testing/run-captured.ts'

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
