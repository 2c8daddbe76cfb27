import http from 'node:http'
import type { AddressInfo } from 'node:net'
import zlib from 'node:zlib'
import { fastify } from 'fastify'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { type Readiness, READINESS_CHECK_MS } from '../../platform/health-and-readiness.ts'
import { CONTENT_TYPES } from '../../test/support/content-types.ts'
import { sendRaw } from '../../test/support/local-ports.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { CAPTURE_PATHS } from './capture-routes.ts'
import { discardPublished, takeMessages, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'

const event = (name: string): object => ({ api_key: PROJECT_KEY, event: name, distinct_id: 'u' })

const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
t.beforeEach(async () => await discardPublished(ingest.connection))

t.test('every path takes events by POST and GET, with and without slash', async (t) => {
  const names: string[] = []
  for (const path of CAPTURE_PATHS.flatMap((path) => [path, `${path}/`])) {
    names.push(`POST ${path}`, `GET ${path}`)
    const data = encodeURIComponent(Buffer.from(JSON.stringify(event(`GET ${path}`))).toString('base64'))
    const answers = [
      await ingest.post(path, event(`POST ${path}`)),
      await fetch(`${ingest.url}${path}?data=${data}&_=${Date.now()}&ver=1.2.3&ip=1`)
    ]
    for (const answer of answers) {
      t.equal(answer.status, 200)
      t.match(answer.headers.get('content-type'), /^application\/json/)
      t.equal(await answer.text(), '{"status":1}')
    }
  }

  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.same(stored.map(({ event }) => event).sort(), names.sort())
})

t.test('engage names the nameless, beacon asks for 204, a browser page may send', async (t) => {
  const origin = 'https://shop.example.com'

  const engage = await ingest.post('/engage/', { token: PROJECT_KEY, $distinct_id: 'u', $set: { a: 1 } })
  const beacon = await ingest.post('/e/?beacon=1', event('beacon'), { headers: { origin } })
  const preflight = await fetch(`${ingest.url}/e/`, {
    method: 'OPTIONS', headers: { origin, 'access-control-request-headers': 'content-type,x-y', 'access-control-request-method': 'POST' }
  })

  t.equal(engage.status, 200)
  t.equal(beacon.status, 204)
  t.equal(await beacon.text(), '')
  for (const answer of [beacon, preflight]) {
    t.equal(answer.headers.get('access-control-allow-origin'), origin)
    t.equal(answer.headers.get('access-control-allow-credentials'), 'true')
  }
  t.equal(preflight.status, 200)
  t.equal(preflight.headers.get('access-control-allow-headers'), 'content-type,x-y')
  const stored = await takePublishedEvents(ingest.connection, clickhouse)
  t.same(stored.map(({ event }) => event).sort(), ['$identify', 'beacon'])
})

t.test('a page reads that a path cannot be decoded', async (t) => {
  const headers = { origin: 'https://shop.example' }
  for (const path of ['/static/%ZZ', '/e/%ZZ']) {
    const answer = await fetch(`${ingest.url}${path}`, { method: 'POST', headers })
    t.equal(answer.status, 400, path)
    t.equal(answer.headers.get('access-control-allow-origin'), headers.origin, path)
  }
})

t.test('JSON is taken whatever its content type says, by capture and by the API behind', async (t) => {
  const api = fastify()
  api.removeAllContentTypeParsers()
  api.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
  api.post('/decide/', async ({ body }, reply) => await reply.send(body))
  const address = await api.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => await api.close())
  const origin = await startTestIngest(t, { MILLRACE_API_URL: address })
  const types = [...CONTENT_TYPES, undefined]

  for (const [path, expected] of [['/capture/', '{"status":1}'], ['/batch', '{"status":1}'], ['/decide/', JSON.stringify(event('e'))]] as const) {
    for (const type of types) {
      // By hand, because HTTP clients correct invalid requests.
      const answer = await sendRaw(origin.ingest.port, `POST ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n` +
        `${type === undefined ? '' : `content-type: ${type}\r\n`}content-length: ${JSON.stringify(event('e')).length}\r\n\r\n${JSON.stringify(event('e'))}`)
      t.match(answer, /^HTTP\/1.1 200 /, `${path} ${JSON.stringify(type)}`)
      t.ok(answer.includes(expected))
    }
  }
  t.equal(await origin.metric('millrace_ingest_events_accepted_total'), 2 * types.length)
})

t.test('methods that capture does not know are answered 405, with those it knows', async (t) => {
  for (const path of CAPTURE_PATHS.flatMap((path) => [path, `${path}/`, `/${path}/?ip=1`])) {
    for (const method of ['PUT', 'PATCH', 'DELETE', 'HEAD', 'TRACE', 'PROPFIND']) {
      const answer = await sendRaw(ingest.ingest.port,
        `${method} ${path} HTTP/1.1\r\nhost: x\r\norigin: https://a.example\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}`)
      t.match(answer, /^HTTP\/1.1 405 /, `${method} ${path}`)
      t.match(answer, /\r\nallow: GET, POST, OPTIONS\r\n/)
      if (method !== 'HEAD') t.match(answer, /"type":"invalid_request","code":"method_not_allowed"/)
    }
  }
  t.match(await sendRaw(ingest.ingest.port, 'TRACE /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'),
    /^HTTP\/1.1 404 [^]*"type":"invalid_request","code":"not_found"/)
})

t.test('errors have the shape of the contract', async (t) => {
  const cases: [string, string | Uint8Array, number, object][] = [
    ['/capture/', '', 400, { type: 'validation_error', code: 'empty_body' }],
    ['/capture/', 'hello!', 400, { type: 'validation_error', code: 'invalid_json' }],
    ['/capture/?compression=gzip', 'hello!', 400, { type: 'validation_error', code: 'invalid_gzip' }],
    ['/capture/?compression=base64', '%%%%', 400, { type: 'validation_error', code: 'invalid_base64' }],
    ['/capture/', '"text"', 400, { type: 'validation_error', code: 'invalid_body' }],
    ['/capture/', '5', 400, { code: 'invalid_body', detail: /must be a JSON object or array/ }],
    ['/batch/', JSON.stringify({ api_key: PROJECT_KEY, batch: {} }), 400, { code: 'invalid_batch', attr: 'batch' }],
    ['/batch/', JSON.stringify({ batch: [] }), 401, { type: 'authentication_error', code: 'invalid_api_key', attr: null }],
    ['/capture/', JSON.stringify({ ...event('e'), api_key: 'phc_none' }), 401, { type: 'authentication_error', code: 'invalid_api_key' }],
    ['/capture/', JSON.stringify({ ...event('e'), api_key: 'phx_none' }), 401, { code: 'invalid_personal_api_key' }],
    ['/e/', JSON.stringify([{ event: 'a', token: PROJECT_KEY }, { event: 'a', token: 'x' }]), 401, { code: 'invalid_api_key' }],
    ['/s/', '{}', 404, { type: 'invalid_request', code: 'not_found' }],
    ['/capture/%zz', '{}', 400, { type: 'invalid_request', code: 'invalid_request', attr: null }],
    ['/api/projects/1/experiments', '{}', 503, { type: 'server_error', code: 'api_unavailable' }]
  ]
  for (const [path, body, status, shape] of cases) {
    const answer = await ingest.post(path, body)
    t.equal(answer.status, status, path + String(body))
    t.match(await answer.json(), { type: String, code: String, detail: String, ...shape })
  }
  t.equal((await takeMessages(ingest.connection, EVENTS_STREAM)).length, 0)
})

t.test('a refused body leaves its connection usable', async (t) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const sockets = new Set<unknown>()
  type Status = number | undefined
  const post = async (body: Buffer, chunked: boolean): Promise<Status> => await new Promise((resolve, reject) => {
    const headers: http.OutgoingHttpHeaders = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length }
    const request = http.request(`${ingest.url}/batch/`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode))
    })
    request.on('socket', (socket) => sockets.add(socket)).on('error', reject)
    request.end(body)
  })

  const bomb = zlib.gzipSync(Buffer.alloc(110_000_000))

  const statuses: Status[] = []
  for (const chunked of [false, true]) {
    statuses.push(await post(Buffer.alloc(25_000_000, 0x20), chunked))
    statuses.push(await post(bomb, chunked))
    statuses.push(await post(Buffer.from(JSON.stringify(event('after'))), chunked))
  }

  t.same(statuses, [413, 413, 200, 413, 413, 200])
  t.equal(sockets.size, 1)
})

t.test('a client that disconnects in the middle of a large body leaves nothing behind', async (t) => {
  for (let i = 0; i < 20; i++) {
    const request = http.request(`${ingest.url}/batch/`, { method: 'POST', headers: { 'content-length': 10_000_000 } })
    request.on('error', () => {})
    request.write(Buffer.alloc(1_000_000, 0x20))
    await waitFor(async () => await ingest.metric('millrace_ingest_large_body_bytes') > 0)
    request.destroy()
    await waitFor(async () => await ingest.metric('millrace_ingest_large_body_bytes') === 0)
  }
  t.equal((await ingest.post('/e', event('after'))).status, 200)
})

t.test('other requests than captures reach the API, bodies and answers unchanged', async (t) => {
  const api = fastify()
  api.post('/decide/', async (request, reply) => await reply.code(201).header('x-from', 'api').send({ query: request.query, body: request.body }))
  const address = await api.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => await api.close())
  const ingest = await startTestIngest(t, { MILLRACE_API_URL: address })

  const answer = await ingest.post('/decide/?v=3', { token: 'x' }, { headers: { 'content-type': 'application/json' } })

  t.equal(answer.status, 201)
  t.equal(answer.headers.get('x-from'), 'api')
  t.same(await answer.json(), { query: { v: '3' }, body: { token: 'x' } })
})

t.test('health: live while it runs, ready until it begins to end', async (t) => {
  const ingest = await startTestIngest(t)
  t.equal((await fetch(`${ingest.url}/_liveness`)).status, 200)
  t.equal((await fetch(`${ingest.url}/_readiness`)).status, 200)
  // On a busy machine NATS takes longer for an answer than a check waits.
  const withoutApi = await waitFor(async () => {
    const answer = await (await fetch(`${ingest.url}/_readiness`)).json() as Readiness
    return answer.checks.nats === 'ok' && answer
  })
  t.match(withoutApi, { status: 'degraded', checks: { api: 'unavailable' }, pid: process.pid }, 'the API is named, and not needed')

  await ingest.ingest.shutdownSteps[0]?.run()

  t.equal((await fetch(`${ingest.url}/_readiness`)).status, 503)
  t.equal((await ingest.post('/e', event('late'))).status, 200)
})

t.test('an API that waits for its own dependencies is not taken for one that does not answer', async (t) => {
  // The API answers after READINESS_CHECK_MS when a dependency of it hangs, and a little later on a busy machine.
  const api = http.createServer((_request, response) => {
    setTimeout(() => response.end('{"status":"degraded"}'), READINESS_CHECK_MS + 50)
  })
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve))
  t.teardown(() => api.close())
  const { port } = api.address() as AddressInfo
  const behind = await startTestIngest(t, { MILLRACE_API_URL: `http://127.0.0.1:${port}` })

  // Not at the first try where this process, which is both of them, stands still meanwhile.
  await waitFor(async () => {
    const { status, checks } = await (await fetch(`${behind.url}/_readiness`)).json() as Readiness
    return status === 'ok' && checks.api === 'ok'
  })
  t.pass()
})

t.test('a key that is created is known at once, one that is deleted is refused soon', async (t) => {
  const send = async (key: string): Promise<number> => (await ingest.post('/e', { ...event('e'), api_key: key })).status
  t.equal(await send('phc_fresh'), 401)

  await ingest.postgres.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES ('phc_fresh', 1)`
  await waitFor(async () => await send('phc_fresh') === 200)
  await ingest.postgres.sql`DELETE FROM project_api_keys WHERE api_key = 'phc_fresh'`
  await waitFor(async () => await send('phc_fresh') === 401)
})
