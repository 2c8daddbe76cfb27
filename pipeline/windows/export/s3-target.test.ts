import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { createRequire } from 'node:module'
import t from 'tap'
import { Agent } from 'undici'
import { createTestClickHouse, createTestPostgres } from '../../../test/support/test-stores.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { askDuckDb, at, completeThrough, createExport, insertEvents, startExports } from './testing/export-fixture.ts'
import { lookupBy } from '../resolve-name.ts'
import { textOf } from './export-target.ts'
import { openS3Target, type S3Settings } from './s3-target.ts'

// It has no types.
const S3rver = createRequire(import.meta.url)('@20minutes/s3rver')

const never = new AbortController().signal

/** A server from npm that checks signatures; it ignores conditions of a PUT, which are checked here as S3 does. */
async function startS3 (
  t: TestContext
): Promise<{ target: S3Settings, files: string, asked: string[], fail: (status: number, requests?: RegExp) => void }> {
  const directory = await mkdtemp(path.join(tmpdir(), 'millrace-s3-'))
  const s3 = new S3rver({ directory, silent: true, configureBuckets: [] })
  await s3.store.putBucket('lake')
  const answer = s3.callback()
  let [failing, requests] = [0, /./]
  const asked: string[] = []
  const server = createServer((request, response) => {
    const handle = async (): Promise<void> => {
      const { pathname, search } = new URL(request.url ?? '', 'http://lake')
      const key = decodeURIComponent(pathname).slice('/lake/'.length)
      const asking = `${request.method} ${search.replaceAll(/uploadId=\w+/g, 'uploadId')}`
      asked.push(asking)
      const fails = failing !== 0 && requests.test(asking)
      if (fails && failing === 200) response.writeHead(200).end('<Error><Code>InternalError</Code></Error>')
      else if (fails && failing !== 412) response.writeHead(failing).end('<Error><Code>SlowDown</Code></Error>')
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
    fail: (status, ofRequests = /./) => { [failing, requests] = [status, ofRequests] },
    asked,
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
  t.same(await Array.fromAsync(target.listManifests('1/warehouse-ä b/events', never)), ['r0', 'r1'].map((part) => `date=2026-05-04/hour=06/${part}.manifest.json`))
  t.same(await Array.fromAsync(target.listManifests('1/warehouse', never)), [])
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

t.test('a file that is too large for one request goes in parts: it is created once, and parts of one that fails are removed', async (t) => {
  const { target: settings, files, asked, fail } = await startS3(t)
  const target = openS3Target(settings, 4)
  const file = path.join(t.testdir({ a: '0123456789' }), 'a')
  const content = async (): Promise<string> => await readFile(path.join(files, 'raw/r0.parquet._S3rver_object'), 'utf8')

  t.equal(await target.create('r0.parquet', file, '', never), true)
  t.equal(await content(), '0123456789')
  t.same(asked.splice(0), ['POST ?uploads=', ...[1, 2, 3].map((part) => `PUT ?partNumber=${part}&uploadId`), 'POST ?uploadId'])
  t.equal(await target.create('r0.parquet', file, '', never), false)
  t.same(asked.splice(0).slice(-2), ['POST ?uploadId', 'DELETE ?uploadId'])
  t.equal(await content(), '0123456789')
  fail(400, /^PUT/)
  await t.rejects(target.create('r1.parquet', file, '', never), { message: 'S3 answered PUT of raw/r1.parquet with 400 SlowDown' })
  t.same(asked.splice(0), ['POST ?uploads=', 'PUT ?partNumber=1&uploadId', 'DELETE ?uploadId'])
  for (const [requests, ended] of [[/^POST .uploads/, []], [/^POST .uploadId/, ['DELETE ?uploadId']]] as const) {
    fail(200, requests)
    await t.rejects(target.create('r1.parquet', file, '', never), { message: 'S3 answered POST of raw/r1.parquet with 200 InternalError' })
    t.same(asked.splice(0).filter((request) => request.startsWith('DELETE')), ended)
  }
  fail(0)
  t.equal(await target.read('r1.parquet', never), null)
})

t.test('the name of an endpoint is resolved beside the lookups that all connections share', async (t) => {
  const { target: settings } = await startS3(t)
  const endpoint = settings.endpoint.replace('127.0.0.1', 's3.example')
  const dispatcher = new Agent({ connect: { lookup: lookupBy(async () => [{ address: '127.0.0.1', family: 4 }]) } })
  t.teardown(async () => await dispatcher.destroy())
  // It takes the name for that of a bucket.
  await t.rejects(openS3Target({ ...settings, endpoint }, undefined, dispatcher).read('r0.parquet', never), { message: /^S3 answered GET/ })
})

/** A place in S3 whose server is another one. */
async function placeOf (t: TestContext, server: Server): Promise<S3Settings> {
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.close(); server.closeAllConnections() })
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { kind: 's3', endpoint, region: 'us-east-1', bucket: 'lake', prefix: '', access_key_id: 'a', secret_access_key: 'b' }
}

t.test('a server that answers without end fills no memory', async (t) => {
  const endless = createServer((_, response) => {
    const more = (): void => { while (response.write(Buffer.alloc(65_536, '<Key>'))); }
    response.on('drain', more)
    more()
  })
  const target = openS3Target(await placeOf(t, endless))
  const refused = { message: /the target sent more than \d+ bytes of text/ }
  await t.rejects(Array.fromAsync(target.listManifests('1/lake-1/events', never)), refused)
  const content = await target.read('1/lake-1/events/r0.manifest.json', never)
  await t.rejects(textOf(content ?? Readable.from([])), refused)
})

t.test('nor does one whose list of names has no end', async (t) => {
  let pages = 0
  const names = Buffer.alloc(8_000_000, '<Key>1/lake-1/events/date=2026-05-04/hour=06/r0.manifest.json</Key>')
  const server = createServer((_, response) => {
    pages++
    response.end(Buffer.concat([names, Buffer.from(`<NextContinuationToken>${pages}</NextContinuationToken>`)]))
  })
  const target = openS3Target(await placeOf(t, server))
  const list = async (): Promise<void> => { for await (const name of target.listManifests('1/lake-1/events', never)) if (name === '') break }
  await t.rejects(list(), { message: /the target lists more than \d+ bytes of names/ })
  t.ok(pages < 30, 'it is left early')
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
  await waitFor(async () => (await sql`SELECT FROM window_tasks WHERE error = 'S3 answered GET of lake with 400 SlowDown'`).length === 1)
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
