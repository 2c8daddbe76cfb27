import t from 'tap'
import { openIngestBucket } from '../../pipeline/accounting/keep-watermark.ts'
import { startTestStores } from '../../pipeline/testing/start-test-partition.ts'
import { presenceKey } from '../../schema/wire/ingest-presence.ts'
import { runCaptured, type Captured } from '../testing/run-captured.ts'

t.test('shows the watermark and who holds it back, and forgets a folder that is lost', async (t) => {
  const { nats, clickhouse, connection } = await startTestStores(t)
  const later = { now: () => Date.now() + 60_000 }
  const run = async (line: string, world = later): Promise<Captured> =>
    await runCaptured(['watermark', ...line.split(' ')], { NATS_URL: nats.url, CLICKHOUSE_URL: clickhouse.url }, world)
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
    complete_through: '2026-01-02T00:00:00.000Z', held_by: 'ingest ab', ingest: [{ id: 'ab', host: 'one', spoolBytes: 9 }]
  })
  const apart = await runCaptured(['watermark'], { NATS_URL: 'nats://127.0.0.1:9', CLICKHOUSE_URL: clickhouse.url }, later)
  t.match(apart, { code: 3, out: /^complete_through +2026-01-02/, err: 'nats does not answer: the ingest processes are not listed.\n' })

  t.match(await run('forget ab'), { code: 0, err: /add --yes/i, out: /ab +one/ })
  t.match(await run('forget cd'), { code: 1, err: /no spool folder has the id cd/ })
  t.match(await run('forget cd --yes'), { code: 1, err: /no spool folder has the id cd/ })
  t.match(await run('forget ab --yes', { now: Date.now }), { code: 1, err: /runs: stop it instead/ })
  t.match(await run('forget ab --yes'), { code: 0, out: /no longer waits for ab on one; 9 bytes/ })
  t.match(JSON.parse((await run('--json')).out), { ingest: [] })

  await clickhouse.client.command({ query: 'TRUNCATE TABLE watermark_reached' })
  await clickhouse.client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3), (now64(3) - INTERVAL 1 MINUTE, '')" })
  t.match(JSON.parse((await run('--json')).out), { held_by: /^pipeline: does not report since / })
})
