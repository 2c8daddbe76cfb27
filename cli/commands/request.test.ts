import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { startTestStores } from '../../pipeline/testing/start-test-partition.ts'
import { createLogger } from '../../platform/logger.ts'
import { INGEST_BUCKET, presenceKey } from '../../schema/wire/ingest-presence.ts'
import { type Captured, runCaptured, startApi } from '../testing/run-captured.ts'

const { run } = await startApi(t)
const RULES = '/api/projects/1/rules/'
const RULE = { name: 'no tests', condition: { type: 'event', value: 'test' }, actions: [{ type: 'drop' }] }

t.test('sends a body of the command line or of a file, and writes the answer', async (t) => {
  const file = path.join(t.testdir(), 'rule.json')
  await writeFile(file, `\uFEFF${JSON.stringify(RULE)}`)
  const { id } = JSON.parse((await run('request', 'post', RULES, '--data', `@${file}`)).out) as { id: number }

  t.match(JSON.parse((await run('request', 'PATCH', `${RULES}${id}/`, '--data', '{"active_version":1}')).out), { active_version: 1, name: 'no tests' })
  t.match(JSON.parse((await run('request', 'GET', `${RULES}?limit=1`)).out), { count: 1, results: [{ id }] })
  t.same(await run('request', 'DELETE', `${RULES}${id}/`), { code: 0, out: '', err: '' })
})

t.test('names the error and its place', async (t) => {
  t.match(await run('request', 'POST', RULES, '--data', JSON.stringify({ ...RULE, actions: [{ type: 'burn' }] })), { code: 1, out: '', err: /actions/ })
  t.match(await run('request', 'POST', RULES, '--data', '{'), { code: 2, err: /--data is not valid JSON/ })
  t.match(await run('request', 'GET', RULES, '--data', '{}'), { code: 2, err: /GET has no body/ })
  t.match(await run('request', 'POST', RULES, '--data', '@/none'), { code: 1, err: /cannot read JSON from @\/none/ })
  t.match(await run('request', 'GET', '/api/projects/9/quota/'), { code: 1, out: '' })
  t.match(await run('request', 'PUT', RULES), { code: 2, err: /GET, POST, PATCH, DELETE/ })
})

t.test('shows the watermark and who holds it back, and forgets a folder that is lost', async (t) => {
  const { nats, clickhouse, connection } = await startTestStores(t)
  let aheadMs = 60_000
  const logger = createLogger({ component: 'test', level: 'silent' })
  const deps = { clickhouse: clickhouse.client, now: () => Date.now() + aheadMs }
  const api = await startApi(t, { ...deps, nats: createNatsOnDemand({ url: nats.url, logger }) })
  const read = async ({ run } = api): Promise<Record<string, unknown>> => JSON.parse((await run('request', 'GET', '/api/watermark')).out)
  const forget = async (id: string, env = api.env): Promise<Captured> =>
    await runCaptured(['request', 'DELETE', `/api/watermark/ingest/${id}`], env, { now: deps.now })
  t.match(await read(), { complete_through: null, held_by: null, ingest: [] })

  const bucket = await openBucket(connection, INGEST_BUCKET, { replicas: 1 })
  const entry = { host: 'one', folder: '/spool/0', publishedThrough: Date.parse('2026-01-02'), inFlight: 0, spoolBytes: 9, version: '1' }
  await bucket.put(presenceKey('ab'), JSON.stringify(entry))
  await clickhouse.client.insert({
    table: 'watermark_reached', format: 'JSONEachRow',
    values: [{ id: 0, complete_through: '2026-01-02', state: { updated_at: new Date().toISOString().slice(0, -1), held_by: 'ingest ab' } }]
  })
  t.match(await read(), {
    complete_through: '2026-01-02T00:00:00.000Z', held_by: 'ingest ab', ingest: [{ id: 'ab', host: 'one', spool_bytes: 9 }]
  })
  t.match(await read(await startApi(t, deps)), { complete_through: /^2026-01-02/, ingest: null }, 'without NATS')
  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes: ['project:write'], projectIds: null, expiresAt: null })
  t.match(await forget('ab', { ...api.env, MILLRACE_KEY: key }), { code: 1, err: /scope '\*'/ })

  aheadMs = -60_000
  t.match(await forget('ab'), { code: 1, err: /is running: stop it instead/ })
  aheadMs = 60_000
  t.match(await forget('ab'), { code: 0 })
  t.match(await read(), { ingest: [] })

  await clickhouse.client.command({ query: 'TRUNCATE TABLE watermark_reached' })
  await clickhouse.client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3), (now64(3) - INTERVAL 1 MINUTE, '')" })
  t.match(await read(), { held_by: /^pipeline: does not report since / })
})
