import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import t from 'tap'
import { waitFor } from '../testing/wait-for.ts'
import { startTestServer, TEST_PASSWORDS } from '../testing/start-test-server.ts'

const server = await startTestServer(t)

t.test('holds little memory while a slow client reads a large result', async (t) => {
  const before = await readMemory()
  const headers = { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner }
  const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', headers })
  request.end("SELECT number, repeat('x', 100) FROM numbers(4000000)")
  const [response] = await once(request, 'response') as [http.IncomingMessage]
  let bytes = 0
  let highest = 0
  for await (const chunk of response) {
    bytes += (chunk as Buffer).length
    if (bytes % 50_000_000 < (chunk as Buffer).length) highest = Math.max(highest, await readMemory())
  }

  t.ok(bytes > 400_000_000)
  t.ok(highest - before < 250_000_000, `${highest - before} bytes more`)
})

t.test('frees the session of every client that stops reading in the middle of a result', async (t) => {
  const headers = { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner }
  for (const [query, params] of [['SELECT * FROM system.numbers', ''], ['SELECT * FROM numbers(100000000)', 'wait_end_of_query=1']]) {
    await Promise.all(Array.from({ length: 20 }, async (_, i) => {
      const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: `/?${params}`, headers })
      request.on('error', () => {})
      request.end(query)
      await new Promise((resolve) => setTimeout(resolve, i * 10))
      request.destroy()
    }))
  }

  await waitFor(async () => {
    const { text } = await server.ask("SELECT count() FROM system.processes WHERE query LIKE '%numbers%' AND query NOT LIKE '%processes%'")
    return text === '0\n'
  })
  t.equal((await server.ask('SELECT 1')).text, '1\n')
})

t.test('kills a query by its id although its client has stopped reading', async (t) => {
  const headers = { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner }
  const request = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: '/?query_id=stuck', headers })
  request.on('error', () => {})
  request.end('SELECT * FROM system.numbers')
  const [response] = await once(request, 'response') as [http.IncomingMessage]
  response.on('error', () => {})
  t.equal((await server.ask('SELECT 1', { params: { query_id: 'stuck' } })).code, 216)

  await server.ask("KILL QUERY WHERE query_id = 'stuck'")

  await waitFor(async () => (await server.ask('SELECT 1', { params: { query_id: 'stuck' } })).text === '1\n')
  request.destroy()
})

t.test('refuses more queries than may wait, with code 202', async (t) => {
  const ids = Array.from({ length: 60 }, (_, i) => `busy-${i}`)
  const refused: string[] = []
  // Without end: however long the requests take to come, none makes way for a later one.
  const answers = ids.map(async (id) => {
    const { code } = await server.ask('SELECT count() FROM system.numbers', { user: 'analyst', params: { query_id: id } })
    if (code === 202) refused.push(id)
    return code
  })
  await waitFor(() => refused.length >= 24)
  await Promise.all(ids.filter((id) => !refused.includes(id)).map(async (id) => await server.ask(`KILL QUERY WHERE query_id = '${id}'`)))

  const codes = Map.groupBy(await Promise.all(answers), (code) => code)
  t.equal(codes.get(202)?.length, 24)
  t.equal(codes.get(394)?.length, 36, 'four ran and 32 waited until they were killed')
})

async function readMemory (): Promise<number> {
  return Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${server.pid}/status`, 'utf8'))![1]) * 1024
}
