import { connect } from 'node:net'
import t from 'tap'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { startTestIngest } from '../../ingest/testing/start-test-ingest.ts'

const api = await createTestApi(t)
const apiUrl = await api.app.listen({ port: 0, host: '127.0.0.1' })
const ingest = await startTestIngest(t, { DATABASE_URL: api.databaseUrl, MILLRACE_API_URL: apiUrl })
const alone = await startTestIngest(t, { DATABASE_URL: api.databaseUrl, MILLRACE_API_URL: 'http://127.0.0.1:9' })

const MANAGEMENT = `/api/projects/${api.projectId}/feature_flags/`
const AUTHORISED = `authorization: Bearer ${api.key}\r\ncontent-type: application/json`
/** Larger than the buffers of the system, and than what a refusal could read before it answers. */
const BYTES = 25_000_000

const requests: [string, number, string, string, number][] = [
  ['a body that is too large', ingest.ingest.port, 'POST /batch/', 'x: y', 413],
  ['no key in Capture V1', ingest.ingest.port, 'POST /i/v1/analytics/events', 'x: y', 401],
  ['another method', ingest.ingest.port, 'PUT /i/v1/analytics/events', 'x: y', 405],
  ['a path that is not served', ingest.ingest.port, 'POST /s/', 'x: y', 404],
  ['a path that does not decode', ingest.ingest.port, 'POST /e/%ZZ', 'x: y', 400],
  ['headers that are too large', ingest.ingest.port, 'POST /batch/', `cookie: ${'x'.repeat(70_000)}`, 431],
  ['a path that nobody serves', ingest.ingest.port, 'POST /nothing', 'x: y', 404],
  ['flags', ingest.ingest.port, 'POST /flags/?v=2', 'x: y', 413],
  ['flags, whose client waits for 100 Continue', ingest.ingest.port, 'POST /flags/?v=2', 'expect: 100-continue', 413],
  ['OFREP', ingest.ingest.port, 'POST /ofrep/v1/evaluate/flags', 'x: y', 413],
  ['management', ingest.ingest.port, `POST ${MANAGEMENT}`, AUTHORISED, 413],
  ['management, at the API', Number(new URL(apiUrl).port), `POST ${MANAGEMENT}`, AUTHORISED, 413],
  ['an API that is unavailable', alone.ingest.port, 'POST /flags/', 'x: y', 503]
]

for (const [name, port, line, header, status] of requests) {
  for (const connection of ['close', 'keep-alive']) {
    t.test(`a client that sends ${BYTES} bytes before it reads sees why it was refused: ${name}, ${connection}`, async (t) => {
      const socket = connect(port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      const failed = new Promise<never>((_resolve, reject) => socket.once('error', reject))
      const head = `${line} HTTP/1.1\r\nhost: x\r\nconnection: ${connection}\r\n${header}\r\n` +
        `content-length: ${BYTES}\r\n\r\n`
      socket.write(head)
      // Nothing is read meanwhile.
      await Promise.race([failed, new Promise((resolve) => socket.write(Buffer.alloc(BYTES, 0x20), resolve))])
      let answer = ''
      for await (const chunk of socket) {
        answer += String(chunk)
        if (/^HTTP\/1\.1 [2-5][^]*\r\n\r\n[^]*\}/m.test(answer)) break
      }
      t.match(answer, new RegExp(`(?:^|\r\n\r\n)HTTP/1\\.1 ${status} `))
    })
  }
}
