import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'

const server = await startTestServer(t, { args: ['--send-timeout-seconds', '1'] })

/** More than all buffers between server and client hold, also compressed. */
const LARGE = 'SELECT hex(SHA512(toString(number))) FROM numbers(400000)'

const send = (query: string, params = '', user: keyof typeof TEST_PASSWORDS = 'analyst'): net.Socket => {
  const socket = net.connect(server.port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(`POST /?${params} HTTP/1.0\r\nAccept-Encoding: gzip\r\nX-ClickHouse-User: ${user}\r\n` +
    `X-ClickHouse-Key: ${TEST_PASSWORDS[user]}\r\nContent-Length: ${query.length}\r\n\r\n${query}`)
  return socket
}

/** A client that begins to read and then takes nothing more. */
const stopReading = async (params: string, user?: keyof typeof TEST_PASSWORDS): Promise<net.Socket> => {
  const socket = send(LARGE, params, user)
  await once(socket, 'data')
  return socket.pause()
}

/** What the log tells of the queries with these ids. */
const readLog = async (ids: string[]): Promise<string> => {
  await server.ask('SYSTEM FLUSH LOGS')
  const { text } = await server.ask(`SELECT query_id, exception_code, exception LIKE '%Timeout exceeded while writing to socket (127.0.0.1, 1000 ms). (SOCKET_TIMEOUT)%'
    FROM system.query_log WHERE query_id IN (${ids.map((id) => `'${id}'`).join()}) ORDER BY query_id FORMAT TSV`)
  return text
}

t.test('analysts that stop reading do not hold up the others, however their answers are made', async (t) => {
  const ways = ['', 'enable_http_compression=1', 'compress=1', 'wait_end_of_query=1']
  const ids = ways.map((_, i) => `stopped-${i}`)
  const sockets = await Promise.all(ways.map(async (way, i) => await stopReading(`query_id=${ids[i]}&${way}`)))

  const { text } = await server.ask('SELECT 1', { user: 'analyst' })

  t.equal(text, '1\n')
  await waitFor(async () => await readLog(ids) === ids.map((id) => `${id}\t209\t1\n`).join(''))
  for (const socket of sockets) {
    socket.resume()
    await t.rejects(once(socket, 'end'), { code: 'ECONNRESET' })
  }
  t.equal((await server.ask('SELECT count() FROM system.processes')).text, '1\n', 'their queries have ended')
})

t.test('the owner is no exception, nor is an answer with progress in its head', async (t) => {
  const socket = await stopReading('query_id=owner&send_progress_in_http_headers=1&http_headers_progress_interval_ms=1', 'owner')

  await waitFor(async () => await readLog(['owner']) === 'owner\t209\t1\n')
  socket.resume()
  await t.rejects(once(socket, 'end'), { code: 'ECONNRESET' })
})

t.test('a slow client that goes on reading gets everything', async (t) => {
  const socket = send(LARGE)
  const startedAt = performance.now()
  let text = ''
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString('latin1')
    // 64 KB each: some 2 MB a second, more than what makes the system tell that there is room to write.
    if (performance.now() - startedAt < 6000) await delay(30)
  }

  const body = text.slice(text.indexOf('\r\n\r\n') + 4)
  t.equal(body.split('\n').length - 1, 400_000)
})

t.test('a client may wait for its answer for longer', async (t) => {
  t.equal((await server.ask('SELECT sleep(2.5)')).text, '0\n')
})
