import http from 'node:http'
import { connect, type Socket } from 'node:net'
import zlib from 'node:zlib'
import t from 'tap'
import { PROJECT_KEY, startTestIngest, type TestIngest } from '../../ingest/testing/start-test-ingest.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'
import { hostileBodies } from './hostile-bodies.ts'

const MEGABYTE = 1_048_576
const EVENT = JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'd' })

interface RawClient {
  socket: Socket
  /** What came back so far. */
  text: () => string
}

function openSocket (t: TestContext, { ingest }: TestIngest): RawClient {
  const socket = connect({ port: ingest.port, host: '127.0.0.1' })
  let text = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => { text += chunk }).on('error', () => {})
  t.teardown(() => socket.destroy())
  return { socket, text: () => text }
}

t.test('bombs of every encoding are refused for what they would become, in little memory', async (t) => {
  // A fifth of the default: the memory held shrinks with the limit.
  const ingest = await startTestIngest(t, { MILLRACE_MAX_DECOMPRESSED_BYTES: String(20 * MEGABYTE) })
  const zeros = Buffer.alloc(100 * MEGABYTE, 0x20)
  const fast = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }
  const bombs: [string, Buffer][] = [
    ['gzip', zlib.gzipSync(zeros)], ['br', zlib.brotliCompressSync(zeros, fast)],
    ['zstd', zlib.zstdCompressSync(zeros)], ['deflate', zlib.deflateSync(zeros)]
  ]
  const before = process.memoryUsage().rss
  let peak = before
  const watch = setInterval(() => { peak = Math.max(peak, process.memoryUsage().rss) }, 20)
  t.teardown(() => clearInterval(watch))

  for (const [encoding, bomb] of bombs) {
    const answers = await Promise.all(Array.from({ length: 8 }, async () =>
      await ingest.post('/batch/', bomb, { headers: { 'content-encoding': encoding } })))
    t.same(new Set(answers.map(({ status }) => status)), new Set([413]), `${encoding} of ${bomb.length} bytes`)
  }

  // Eight at a time hold 160 MB, the rest is what the garbage collector has not got to yet; all bombs are 3,200 MB.
  t.ok(peak - before < 400 * MEGABYTE, `${Math.round((peak - before) / MEGABYTE)} MB for 32 bombs of 100 MB`)
  t.equal((await ingest.post('/capture/', EVENT)).status, 200)
})

t.test('a client that sends its body drop by drop is cut off, and meanwhile hurts nobody', async (t) => {
  const ingest = await startTestIngest(t)
  // As configured it is a minute; the rest of the way is the same.
  ingest.ingest.app.server.headersTimeout = 1000
  ingest.ingest.app.server.requestTimeout = 1000
  const slow = Array.from({ length: 50 }, () => openSocket(t, ingest))
  for (const { socket } of slow) socket.write(`POST /batch/ HTTP/1.1\r\nhost: x\r\ncontent-length: ${MEGABYTE}\r\n\r\n{"api`)
  const drops = setInterval(() => { for (const { socket } of slow) if (!socket.destroyed) socket.write(' ') }, 200)
  t.teardown(() => clearInterval(drops))

  t.equal((await ingest.post('/capture/', EVENT)).status, 200)
  await waitFor(() => slow.every(({ socket }) => socket.destroyed))
  t.ok(slow.every(({ text }) => text().startsWith('HTTP/1.1 408')))
})

t.test('connections beyond the limit are closed, those within go on', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_MAX_CONNECTIONS: '20' })
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const send = async (): Promise<number | undefined> => await new Promise((resolve, reject) => {
    http.request(`${ingest.url}/capture/`, { method: 'POST', agent }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode))
    }).once('error', reject).end(EVENT)
  })
  t.equal(await send(), 200)

  const idle = Array.from({ length: 60 }, () => openSocket(t, ingest).socket)
  await waitFor(() => idle.filter(({ destroyed }) => destroyed).length >= 41)

  t.equal(await send(), 200)
})

t.test('JSON of any depth and any number of names is an event or an error, and the next one is taken', async (t) => {
  const ingest = await startTestIngest(t)
  const deep = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`
  const wide = JSON.stringify(Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`name ${index}`, index])))
  const bodies = [
    ['['.repeat(500_000), 400],
    [`${'['.repeat(200_000)}${']'.repeat(200_000)}`, 200],
    [EVENT.replace('}', `,"properties":${deep}}`), 200],
    [EVENT.replace('}', `,"properties":${wide}}`), 200]
  ] as const
  for (const [body, status] of bodies) {
    const answer = await ingest.post('/capture/', body)
    t.ok(answer.status === status || (answer.status >= 400 && answer.status < 500), `${body.slice(0, 20)}... ${answer.status}`)
  }
  t.equal((await ingest.post('/capture/', EVENT)).status, 200)
})

t.test('a body that is made to cost much costs little, and its answer says that it can never be taken', async (t) => {
  const ingest = await startTestIngest(t)
  // A third of what `npm run check:hostile` sends.
  for (const { name, path, build, headers = {} } of hostileBodies(PROJECT_KEY, 0.3)) {
    const body = build()
    const before = process.cpuUsage()
    const answer = await ingest.post(path, body, { headers })
    const { user, system } = process.cpuUsage(before)
    t.ok([200, 400, 413].includes(answer.status), `${name}: ${answer.status} ${(await answer.text()).slice(0, 200)}`)
    t.ok(user + system < 5e6, `${name}: ${Math.round((user + system) / 1000)} ms`)
  }
  t.equal((await ingest.post('/capture/', EVENT)).status, 200)
})

t.test('a body of another project does not wait for all that one project sends, even from the same address', async (t) => {
  const ingest = await startTestIngest(t)
  const { sql } = ingest.postgres
  await sql`INSERT INTO projects (name) VALUES ('other')`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES ('phc_other', 2, 'project')`
  const events = Array(60_000).fill({ event: 'e', distinct_id: 'd', properties: { $lib: 'l', a: 1 } })
  const own = { api_key: 'phc_other', batch: events.slice(0, 20_000) }
  t.equal((await ingest.post('/batch/', own)).status, 200)

  let answered = 0
  const batches = Array.from({ length: 12 }, async () => {
    const { status } = await ingest.post('/batch/', { api_key: PROJECT_KEY, batch: events })
    answered++
    return status
  })
  await waitFor(() => answered > 0)
  t.equal((await ingest.post('/batch/', own)).status, 200)
  t.ok(answered < 8, `after ${answered} of ${batches.length} batches`)
  t.same(new Set(await Promise.all(batches)), new Set([200]))
})
