import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { startTestIngest } from '../../ingest/testing/start-test-ingest.ts'

const api = await createTestApi(t)
const apiUrl = await api.app.listen({ port: 0, host: '127.0.0.1' })
const ingest = await startTestIngest(t, { DATABASE_URL: api.databaseUrl, MILLRACE_API_URL: apiUrl })
const apiPort = (api.app.server.address() as AddressInfo).port

const fields = { api_key: api.projectKey, event: 'e', distinct_id: 'd' }
const small = JSON.stringify(fields)
/** Above the limit for the event loop. */
const large = JSON.stringify({ ...fields, event: undefined, batch: Array.from({ length: 1000 }, () => ({ ...fields, text: 'x'.repeat(1000) })) })

const requests: [string, number, string, string, RegExp][] = [
  ['capture', ingest.ingest.port, 'POST /capture/', small, /^HTTP\/1\.1 200 [^]*\{"status":1\}/],
  ['a large batch', ingest.ingest.port, 'POST /batch/', large, /^HTTP\/1\.1 200 [^]*\{"status":1\}/],
  ['what capture refuses', ingest.ingest.port, 'POST /capture/', '{', /^HTTP\/1\.1 400 [^]*"code":"invalid_json"/],
  ['capture by GET', ingest.ingest.port, `GET /e/?data=${encodeURIComponent(small)}`, '', /^HTTP\/1\.1 200 [^]*\{"status":1\}/],
  ['flags, forwarded', ingest.ingest.port, 'POST /decide/?v=3', small, /^HTTP\/1\.1 200 [^]*"featureFlags":\{\}/],
  ['many overrides, forwarded', ingest.ingest.port, 'POST /flags/?v=2', large.replace('"batch"', '"$properties":{},"x"'), /^HTTP\/1\.1 200 [^]*"flags":\{\}/],
  ['management, forwarded', ingest.ingest.port, `GET /api/projects/${api.projectId}/experiments/`, '', /^HTTP\/1\.1 200 [^]*"count":0/],
  ['management', apiPort, `GET /api/projects/${api.projectId}/experiments/`, '', /^HTTP\/1\.1 200 [^]*"count":0/],
  ['flags', apiPort, 'POST /flags/?v=2', small, /^HTTP\/1\.1 200 [^]*"flags":\{\}/]
]

for (const [name, port, line, body, answer] of requests) {
  t.test(`a client that closes its side after its request gets its answer: ${name}`, async (t) => {
    for (const connection of ['keep-alive', 'close']) {
      const text = `${line} HTTP/1.1\r\nhost: x\r\nconnection: ${connection}\r\nauthorization: Bearer ${api.key}\r\n` +
        `${body === '' ? '' : `content-type: application/json\r\ncontent-length: ${body.length}\r\n`}\r\n${body}`
      t.match(await sendAndClose(port, text), answer, connection)
    }
  })
}

t.test('it is taken once', async (t) => {
  // Each twice: capture, the large batch, capture by GET.
  t.equal(await ingest.metric('millrace_ingest_events_accepted_total'), 2 * (1 + 1000 + 1))
})

t.test('a client that closes its side before its request is complete gets an error, and nothing is stored', async (t) => {
  const before = await ingest.metric('millrace_ingest_events_accepted_total')

  const answer = await sendAndClose(ingest.ingest.port, `POST /capture/ HTTP/1.1\r\nhost: x\r\ncontent-length: ${small.length + 1}\r\n\r\n${small}`)

  t.match(answer, /^HTTP\/1\.1 400 /)
  t.equal(await sendAndClose(ingest.ingest.port, ''), '')
  t.equal(await ingest.metric('millrace_ingest_events_accepted_total'), before)
})

/** Sends all of a request with the end of the connection, and reads until the other side ends it too. */
async function sendAndClose (port: number, text: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.end(text)
  return Buffer.concat(await socket.toArray() as Buffer[]).toString()
}
