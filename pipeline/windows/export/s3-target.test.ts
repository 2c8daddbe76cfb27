import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { createRequire } from 'node:module'
import t from 'tap'
import { createTestClickHouse, createTestPostgres } from '../../../test/support/test-stores.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { askDuckDb, at, completeThrough, createExport, insertEvents, startExports } from './testing/export-fixture.ts'
import { openS3Target, type S3Settings } from './s3-target.ts'

// It has no types.
const S3rver = createRequire(import.meta.url)('@20minutes/s3rver')

const never = new AbortController().signal

/** A server from npm that checks signatures; it ignores conditions of a PUT, which are checked here as S3 does. */
async function startS3 (
  t: TestContext
): Promise<{ target: S3Settings, files: string, fail: (status: number) => void }> {
  const directory = await mkdtemp(path.join(tmpdir(), 'millrace-s3-'))
  const s3 = new S3rver({ directory, silent: true, configureBuckets: [] })
  await s3.store.putBucket('lake')
  const answer = s3.callback()
  let failing = 0
  const server = createServer((request, response) => {
    const handle = async (): Promise<void> => {
      const key = decodeURIComponent(request.url ?? '').slice('/lake/'.length)
      if (failing !== 0 && failing !== 412) response.writeHead(failing).end('<Error><Code>SlowDown</Code></Error>')
      else if (request.headers['if-none-match'] === '*' && (failing === 412 || await s3.store.existsObject('lake', key))) {
        request.resume()
        response.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>')
      } else answer(request, response)
    }
    void handle()
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(async () => {
    server.close()
    server.closeAllConnections()
    await rm(directory, { recursive: true, force: true })
  })
  const { port } = server.address() as AddressInfo
  return {
    fail: (status) => { failing = status },
    files: path.join(directory, 'lake'),
    target: {
      kind: 's3', endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1', bucket: 'lake', prefix: 'raw/',
      access_key_id: 'S3RVER', secret_access_key: 'S3RVER'
    }
  }
}

t.test('an object is created once, read, and removed; a wrong key is refused', async (t) => {
  const { target: settings } = await startS3(t)
  const target = openS3Target(settings)
  await mkdir(target.scratch, { recursive: true })
  const file = path.join(t.testdir({ a: 'first', b: 'second' }), 'a')
  const name = '1/warehouse-ä b/events/date=2026-05-04/hour=06/r0.parquet'
  const hash = 'a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e'

  t.equal(await target.read(name, never), null)
  t.equal(await target.create(name, file, hash, never), true)
  t.equal(await target.create(name, file, hash, never), false)
  const content = await target.read(name, never)
  t.equal(content === null ? null : await text(content), 'first')
  for (const part of ['r0', 'r1']) await target.create(name.replace('r0.parquet', `${part}.manifest.json`), file, hash, never)
  t.same(await target.listManifests('1/warehouse-ä b/events', never), ['r0', 'r1'].map((part) => `date=2026-05-04/hour=06/${part}.manifest.json`))
  t.same(await target.listManifests('1/warehouse', never), [])
  await target.remove(name, never)
  await target.remove(name, never)
  t.equal(await target.read(name, never), null)
  const wrong = openS3Target({ ...settings, secret_access_key: 'wrong' })
  await t.rejects(wrong.create(name, file, hash, never), {
    message: /S3 answered PUT of raw\/1\/warehouse.* with 403 SignatureDoesNotMatch/
  })
  await t.rejects(openS3Target({ ...settings, endpoint: 'http://127.0.0.1:2' }).read(name, never), {
    message: 'http://127.0.0.1:2 did not answer GET: connect ECONNREFUSED 127.0.0.1:2'
  })
})

t.test('windows go to S3; while it refuses them they wait, with the reason', async (t) => {
  const [{ sql }, { client: clickhouse }, s3] = await Promise.all([
    createTestPostgres(t), createTestClickHouse(t), startS3(t)
  ])
  const { folder } = await createExport(sql, { target: s3.target })
  await insertEvents(clickhouse, 20, () => ({ received_at: at('06:10') }))
  s3.fail(400)
  const exports = startExports({ sql, clickhouse }, { folder: '' })
  t.teardown(async () => await exports.stop())
  await completeThrough(clickhouse, '07:00')
  await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error LIKE 'S3 answered GET of raw/% with 400 SlowDown'`).length === 1)
  s3.fail(0)
  await sql`UPDATE window_tasks SET retry_at = now()`
  await waitFor(async () => (await sql`SELECT FROM export_windows WHERE written_at IS NOT NULL`).length === 1)

  const key = `raw/${folder}/events/date=2026-05-04/hour=06/r0`
  const manifest = JSON.parse(await readFile(path.join(s3.files, `${key}.manifest.json._S3rver_object`), 'utf8'))
  t.match(manifest, { rows: 20, files: [{ name: 'r0.parquet', rows: 20 }] })
  const stored = `read_parquet('${path.join(s3.files, `${key}.parquet._S3rver_object`)}')`
  t.same(await askDuckDb(`SELECT CAST(count(DISTINCT uuid) AS INTEGER) AS rows FROM ${stored}`), [{ rows: 20 }])

  // A service that takes no condition for a condition that fails.
  s3.fail(412)
  await completeThrough(clickhouse, '08:00')
  await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error LIKE '%hour=07/r0.manifest.json cannot be created%'`).length === 1)
  t.same(await sql`SELECT FROM export_windows WHERE written_at IS NOT NULL`, [{}])
})
