import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

/**
 * Both ends are in this process, so it takes two file descriptors each. `MILLRACE_TEST_CONNECTIONS=5000` tries half of
 * what a process takes by default.
 */
const CONNECTIONS = Number(process.env.MILLRACE_TEST_CONNECTIONS ?? 1000)

/** Of an unfinished body and a connection; the bound of the setting is 256 KiB. */
const MAX_BYTES_EACH = 100_000

t.test('thousands of idle, of active and of unfinished connections keep nobody waiting and cost little', async (t) => {
  const ingest = await startTestIngest(t)
  const { port } = ingest.ingest
  const body = JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
  const head = `POST /capture/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  const before = process.memoryUsage.rss()
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    const socket = net.connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }))

  const answers = await Promise.all(sockets.map(async (socket) => {
    socket.write(head + body)
    const [answer] = await once(socket, 'data') as [Buffer]
    return answer.toString('latin1', 0, 12)
  }))
  t.same([...new Set(answers)], ['HTTP/1.1 200'], 'all at once, each is answered')
  for (const socket of sockets) socket.write(head + body.slice(0, 10))
  const answer = await ingest.post('/capture/', { api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
  t.equal(answer.status, 200, 'one among thousands that do not finish is answered')
  const bytesEach = (process.memoryUsage.rss() - before) / CONNECTIONS
  t.ok(bytesEach < MAX_BYTES_EACH, `${Math.round(bytesEach)} bytes a connection, both ends`)
  // Ingest gives unfinished requests time when it ends.
  for (const socket of sockets) socket.destroy()
})
