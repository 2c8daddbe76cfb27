import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { fastify } from 'fastify'
import t, { type Test } from 'tap'
import { freePort, sendRaw } from '../../test/support/local-ports.ts'
import { createLogger, type Logger } from '../../platform/logger.ts'
import { answerHalfClosed, discardRests } from '../../platform/http-server.ts'
import { forwardToApi } from './forward-to-api.ts'

/** More than the buffers of two sockets can take. */
const LARGE_BYTES = 18_000_000

/** Forwards to an API, as ingest does; returns the port. */
async function startOrigin (
  t: Test, apiPort: number, noteUnknownPath = (_path: string): void => {}, flagsSilenceMs = 60_000,
  logger: Logger = createLogger({ component: 'test', level: 'silent' })
): Promise<number> {
  const app = fastify({ forceCloseConnections: true })
  t.teardown(async () => await app.close())
  answerHalfClosed(app.server)
  discardRests(app)
  await app.register(forwardToApi, { apiUrl: `http://127.0.0.1:${apiPort}`, noteUnknownPath, logger, flagsSilenceMs })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}

/** An API that is a mere socket; returns its port. */
async function startApi (t: Test, onSocket: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => onSocket(socket.on('error', () => {})))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** Sends a request as simple clients do: all of it, before it looks for an answer. */
async function sendThenRead (port: number, bytes: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  const head = `POST /decide/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`
  await new Promise((resolve) => {
    socket.write(head)
    socket.write(Buffer.alloc(bytes, 0x20), resolve)
  })
  const chunks = await socket.toArray() as Buffer[]
  return Buffer.concat(chunks).toString()
}

for (const path of ['/flags/?v=2', '/decide/?v=3', '/flags/definitions', '/api/feature_flag/local_evaluation?token=phc_1', '/ofrep/v1/evaluate/flags']) {
  t.test(`${path} does not wait for an API that hangs`, async (t) => {
    const port = await startOrigin(t, await startApi(t, () => {}), undefined, 100)

    const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(60_000) })

    t.match(await response.json(), { code: 'api_unavailable' })
    t.equal(response.status, 503)
  })
}

for (const bytes of [10, 100_000, LARGE_BYTES]) {
  t.test(`a client that has ${bytes} bytes to send is answered at once when the API dies meanwhile`, async (t) => {
    const ports = [
      await startApi(t, (socket) => { socket.once('data', () => socket.resetAndDestroy()) }),
      await startApi(t, (socket) => { socket.once('data', () => socket.destroy()) }),
      // No process listens on the port of discard.
      9
    ]

    for (const port of ports) {
      const origin = await startOrigin(t, port)
      // A request that times out is not answered with this.
      const answer = await sendThenRead(origin, bytes)
      t.match(answer, /^HTTP\/1\.1 503 [\s\S]*retry-after: 5[\s\S]*"code":"api_unavailable"/)
    }
  })
}

t.test('a body is passed on byte by byte, whatever its type', async (t) => {
  const api = fastify()
  t.teardown(async () => await api.close())
  api.removeAllContentTypeParsers()
  api.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  api.post('/flags/', async ({ body }, reply) => await reply.send(body))
  await api.listen({ port: 0, host: '127.0.0.1' })
  const origin = await startOrigin(t, (api.server.address() as AddressInfo).port)

  for (const type of ['text/plain', 'application/json', 'application/x-www-form-urlencoded', 'application/octet-stream']) {
    for (const body of [gzipSync('{"token": "x"}'), randomBytes(200_000)]) {
      const answer = await fetch(`http://127.0.0.1:${origin}/flags/`, { method: 'POST', body, headers: { 'content-type': type } })
      t.ok(body.equals(Buffer.from(await answer.arrayBuffer())), `${type}, ${body.length} bytes`)
    }
  }
})

t.test('the headers by which flags tell a browser from a server are passed on, and none is added', async (t) => {
  const api = fastify()
  t.teardown(async () => await api.close())
  api.post('/flags/', async ({ headers }) => headers)
  await api.listen({ port: 0, host: '127.0.0.1' })
  const origin = await startOrigin(t, (api.server.address() as AddressInfo).port)
  const ofPages = {
    'user-agent': 'Mozilla/5.0', origin: 'https://shop.example', referer: 'https://shop.example/', 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'cross-site'
  }
  const seen = async (headers: Record<string, string>): Promise<object> => {
    const lines = Object.entries({ host: 'x', connection: 'close', 'content-length': '0', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    const answer = await sendRaw(origin, `POST /flags/ HTTP/1.1\r\n${lines.join('')}\r\n`)
    const all = JSON.parse(answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1)) as Record<string, string>
    return Object.fromEntries(Object.entries(all).filter(([name]) => name in ofPages))
  }

  t.same(await seen(ofPages), ofPages)
  t.same(await seen({}), {})
})

t.test('a connection is closed after the answer when the client asked for it, whatever the API does with its own', async (t) => {
  const api = fastify()
  t.teardown(async () => await api.close())
  api.post('/decide/', async (_request, reply) => await reply.send('{}'))
  await api.listen({ port: 0, host: '127.0.0.1' })
  const origin = await startOrigin(t, (api.server.address() as AddressInfo).port)

  const answer = await sendRaw(origin, 'POST /decide/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n' +
    'content-type: application/json\r\ncontent-length: 2\r\n\r\n{}')

  t.match(answer, /^HTTP\/1\.1 200 /)
  t.match(answer, /\r\nconnection: close\r\n/i)
})

t.test('a client that disconnects in the middle of a body leaves no request behind at the API', async (t) => {
  const closed = Promise.withResolvers<undefined>()
  const origin = await startOrigin(t, await startApi(t, (socket) => {
    socket.once('data', () => client.destroy()).once('close', () => closed.resolve(undefined)).resume()
  }))
  const client = connect(origin, '127.0.0.1')

  client.write('POST /decide/ HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{')

  await closed.promise
})

for (const [type, body] of [['text/event-stream', ''], ['application/x-ndjson', '{"query":"SELECT 1"}']] as const) {
  t.test(`an answer of ${type} ends at the API when its client leaves, though nothing more is written`, async (t) => {
    const atApi = Promise.withResolvers<Socket>()
    const apiPort = await startApi(t, (socket) => {
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n`)
        atApi.resolve(socket)
      })
    })
    const client = connect(await startOrigin(t, apiPort), '127.0.0.1')
    client.write(`${body === '' ? 'GET' : 'POST'} /api/data HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    const [head] = await once(client, 'data') as [Buffer]
    t.match(head.toString(), /^HTTP\/1\.1 200 /)
    const socket = await atApi.promise
    client.destroy()
    await once(socket, 'close', { signal: AbortSignal.timeout(60_000) })
    t.ok(socket.destroyed)
  })
}

t.test('a GET that the API refuses for the moment is passed on once', async (t) => {
  let requests = 0
  const origin = await startOrigin(t, await startApi(t, (socket) => {
    socket.on('data', () => {
      requests++
      socket.write('HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 2\r\n\r\n{}')
    })
  }))

  const answer = await fetch(`http://127.0.0.1:${origin}/api/projects/1/experiments/1/results`)

  t.equal(answer.status, 503)
  t.equal(await answer.text(), '{}')
  t.equal(requests, 1)
})

t.test('while the API is unavailable, errors are JSON, but none where SDKs would take it for the payload of a flag', async (t) => {
  const logged: object[] = []
  const logger = { warn: (facts: object) => { logged.push(facts) } } as unknown as Logger
  const origin = await startOrigin(t, await freePort(), undefined, undefined, logger)
  const ask = async (path: string): Promise<Response> => await fetch(`http://127.0.0.1:${origin}/api/projects/@current/feature_flags/${path}`)

  const plain = await ask('1')
  const payload = await ask('limits/remote_config?token=x')

  t.match(await plain.json(), { code: 'api_unavailable' })
  t.match([payload.status, await payload.text(), payload.headers.get('millrace-error')], [503, '', 'api_unavailable'])
  t.match(logged, [{ err: { code: 'ECONNREFUSED' } }, { err: { code: 'ECONNREFUSED' } }], 'the log has the cause')
})

t.test('requests for flags are answered with 503 while the API is stopped and its connections are open', async (t) => {
  const origin = await startOrigin(t, await startApi(t, (socket) => { socket.resume() }), undefined, 50)

  for (const path of ['flags/?v=2', 'flags', 'decide/?v=3']) {
    const answer = await fetch(`http://127.0.0.1:${origin}/${path}`, { method: 'POST', body: '{}', headers: { origin: 'https://shop.example' } })
    t.match([answer.status, await answer.json()], [503, { code: 'api_unavailable' }], path)
    t.equal(answer.headers.get('access-control-allow-origin'), 'https://shop.example')
  }
})

t.test('a page reads that a path is not served, and that the API is unavailable', async (t) => {
  const port = await startOrigin(t, 9)
  const headers = { origin: 'https://shop.example' }
  const preflight = { ...headers, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type' }

  for (const path of ['/s/', '/i/v1/logs']) {
    const asked = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'OPTIONS', headers: preflight })
    t.equal(asked.status, 204, path)
    t.equal(asked.headers.get('access-control-allow-headers'), 'content-type')
  }
  for (const [path, status] of [['/s/', 404], ['/flags/', 503]] as const) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers })
    t.equal(answer.status, status, path)
    t.equal(answer.headers.get('access-control-allow-origin'), headers.origin, path)
  }
})

t.test('a POST that nobody serves is one for events, unless a client of management sent it below /api', async (t) => {
  const api = fastify()
  t.teardown(async () => await api.close())
  await api.listen({ port: 0, host: '127.0.0.1' })
  const noted: string[] = []
  const port = await startOrigin(t, (api.server.address() as AddressInfo).port, (path) => { noted.push(path) })
  const post = async (path: string, headers: Record<string, string> = {}): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: '{}', headers })
    t.equal(answer.status, 404, path)
  }

  const meant = ['/captur', '/api/event?ip=1', '/api/v1/collect/', '/api/capture/', '/console/batch/', '/api']
  for (const path of meant) await post(path)
  await post('/api/of-sdk', { authorization: 'Bearer phc_of_a_project' })
  await post('/api/of-segment', { authorization: 'Basic cGhjXzo=' })
  await post('/api/projcts/', { authorization: 'Bearer phx_of_a_person' })
  await post('/api/projcts/?a=1&personal_api_key=phx_of_a_person')
  await post('/api/projcts/', { cookie: 'a=b; millrace_session=1' })
  await post('/console/nothing')
  await post('/api/batch/', { authorization: 'Bearer phx_of_a_person' })

  t.same(noted, [...meant.map((path) => path.split('?', 1)[0]), '/api/of-sdk', '/api/of-segment', '/api/batch/'])
})
