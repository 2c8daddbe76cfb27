import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { sendRaw } from '../../test/support/local-ports.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const ingest = await startTestIngest(t, { MILLRACE_MAX_BODY_BYTES: '100000' })
const { port } = ingest.ingest
const accepted = async (): Promise<number> => await ingest.metric('millrace_ingest_events_accepted_total')

const body = JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
const post = (content = body, head = ''): string =>
  `POST /capture/ HTTP/1.1\r\nhost: x\r\n${head}content-length: ${content.length}\r\n\r\n${content}`
const LAST = 'connection: close\r\n'
const statuses = (answers: string): string[] => [...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status as string)

t.test('an answer is complete, and says that its connection stays open', async (t) => {
  const socket = net.connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  for (let i = 0; i < 2; i++) {
    socket.write(post())
    const [answer] = await once(socket, 'data') as [Buffer]
    t.match(answer.toString(), new RegExp('^HTTP/1\\.1 200 OK\\r\\ncontent-type: application/json; charset=utf-8\\r\\ncontent-length: 12\\r\\n' +
      'Date: [^\\r]+ GMT\\r\\nConnection: keep-alive\\r\\nKeep-Alive: timeout=65\\r\\n\\r\\n\\{"status":1\\}$'))
  }
})

t.test('requests sent one after the other without waiting are answered in their order', async (t) => {
  const before = await accepted()
  const engage = post().replace('/capture/', '/e/?beacon=1')
  const get = `GET /e/?data=${encodeURIComponent(body)} HTTP/1.1\r\nhost: x\r\n\r\n`

  const answers = await sendRaw(port, [post(), post('{'), engage, post(), get, post('{}'), post(body, LAST)].join(''))

  t.same(statuses(answers), ['200', '400', '204', '200', '200', '401', '200'])
  t.equal(await accepted() - before, 5)
})

t.test('a thousand requests of a client that reads no answer meanwhile are taken once each', async (t) => {
  const before = await accepted()
  const socket = net.connect(port, '127.0.0.1').pause()
  socket.end(post().repeat(999) + post(body, LAST))
  await waitFor(async () => await accepted() - before > 0)

  const answers = Buffer.concat(await socket.toArray() as Buffer[]).toString()

  t.same(statuses(answers), Array.from({ length: 1000 }, () => '200'))
  t.equal(await accepted() - before, 1000)
})

t.test('a request is whole wherever it was cut on its way', async (t) => {
  const before = await accepted()
  const chunked = `POST /capture/ HTTP/1.1\r\nhost: x\r\n${LAST}transfer-encoding: chunked\r\n\r\n` +
    `a\r\n${body.slice(0, 10)}\r\n${(body.length - 10).toString(16)}\r\n${body.slice(10)}\r\n0\r\n\r\n`
  const cuts: [string, number][] = []
  for (const text of [post(body, LAST), chunked]) {
    for (let at = text.indexOf('\r\n\r\n') + 2; at <= text.length; at += 4) cuts.push([text, at])
  }

  const answers = await Promise.all(cuts.map(async ([text, at]) => {
    const socket = net.connect(port, '127.0.0.1').setNoDelay(true)
    socket.write(text.slice(0, at))
    // Two turns of the event loop, so that the first part is read by itself.
    await ingest.metric('millrace_ingest_events_accepted_total')
    socket.write(text.slice(at))
    return Buffer.concat(await socket.toArray() as Buffer[]).toString()
  }))

  for (const [i, answer] of answers.entries()) t.match(answer, /^HTTP\/1\.1 200 [^]*\{"status":1\}$/, `cut at ${cuts[i]?.[1]}`)
  t.equal(await accepted() - before, cuts.length)
})

t.test('HTTP/1.0, connection: close and Expect are honoured', async (t) => {
  const old = await sendRaw(port, post().replace('HTTP/1.1', 'HTTP/1.0'))
  t.match(old, /^HTTP\/1\.1 200 OK\r\n[^]*\r\nConnection: close\r\n\r\n\{"status":1\}$/)
  t.match(await sendRaw(port, post(body, LAST)), /^HTTP\/1\.1 200 OK\r\n[^]*\r\nConnection: close\r\n\r\n\{"status":1\}$/)
  t.match(await sendRaw(port, post(body, `${LAST}expect: 100-continue\r\n`)), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
  t.match(await sendRaw(port, post(body, LAST).replace('POST', 'HEAD')), /^HTTP\/1\.1 405 [^]*\r\n\r\n$/)
})

t.test('a body that is too large, empty or cut off is refused', async (t) => {
  const before = await accepted()
  t.same(statuses(await sendRaw(port, post('x'.repeat(100_001)) + post(body, LAST))), ['413', '200'])
  t.match(await sendRaw(port, post('', LAST)), /^HTTP\/1\.1 400 [^]*"code":"empty_body"/)
  const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.end(post().slice(0, -1))
  t.match(Buffer.concat(await socket.toArray() as Buffer[]).toString(), /^HTTP\/1\.1 400 /)
  t.equal(await accepted() - before, 1)
})

t.test('clients that disconnect before their answer harm nobody, and their events are taken', async (t) => {
  const before = await accepted()
  await Promise.all(Array.from({ length: 50 }, async () => {
    const socket = net.connect(port, '127.0.0.1')
    await once(socket, 'connect')
    await new Promise<void>((resolve) => socket.write(post(), () => resolve()))
    socket.resetAndDestroy()
  }))
  t.match(await sendRaw(port, post(body, LAST)), /^HTTP\/1\.1 200 /)
  // What was reset before it was read never arrived.
  t.ok(await accepted() - before >= 1)
})

t.test('a page may read the answer, and any byte in its origin comes back as it was', async (t) => {
  const answer = await sendRaw(port, post(body, `${LAST}origin: https://shop.example\r\n`))
  t.match(answer, /\r\naccess-control-allow-origin: https:\/\/shop\.example\r\naccess-control-allow-credentials: true\r\nvary: Origin\r\n/)
  const socket = net.connect(port, '127.0.0.1')
  socket.write(Buffer.from(post(body, `${LAST}origin: https://sh\xf6p.example\r\n`), 'latin1'))
  t.match(Buffer.concat(await socket.toArray() as Buffer[]).toString('latin1'), /\r\naccess-control-allow-origin: https:\/\/sh\xf6p\.example\r\n/)
})

t.test('a process that ends answers what comes on its connections, and asks their clients to connect again', async (t) => {
  const ending = await startTestIngest(t)
  const socket = net.connect(ending.ingest.port, '127.0.0.1')
  await once(socket, 'connect')
  const ended = ending.ingest.shutdownSteps.find(({ name }) => name === 'finish requests')?.run()
  await waitFor(() => !ending.ingest.app.server.listening)

  socket.write(post())
  const answer = Buffer.concat(await socket.toArray() as Buffer[]).toString()
  await ended

  t.match(answer, /^HTTP\/1\.1 200 OK\r\n[^]*\r\nconnection: close\r\n[^]*\{"status":1\}$/)
})
