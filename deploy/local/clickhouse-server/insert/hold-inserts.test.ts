import t from 'tap'
import { startTestServer, TEST_PASSWORDS, type TestServer } from '../testing/start-test-server.ts'

const server = await startTestServer(t)

t.test('no insert begins while a client holds them, and all are done afterwards', async (t) => {
  await server.ask('CREATE TABLE held (n UInt32) ENGINE = MergeTree ORDER BY n')
  const hold = await openHold(server, 'millrace')
  t.equal(hold.status, 200)
  const reader = hold.body!.getReader()
  t.equal(new TextDecoder().decode((await reader.read()).value), 'held\n')

  const inserts = Array.from({ length: 8 }, async (_, n) =>
    await server.ask('', { params: { query: 'INSERT INTO held FORMAT TSV' }, body: `${n}\n` }))
  t.equal(await countWhile(server), '0')
  await reader.cancel()

  for (const answer of await Promise.all(inserts)) t.equal(answer.status, 200)
  t.equal((await server.ask('SELECT count() FROM held')).text.trim(), '8')
})

t.test('analysts cannot hold inserts', async (t) => {
  const hold = await openHold(server, 'analyst')

  t.not(hold.status, 200)
  t.match(await hold.text(), /Code: 164/)
})

/** Asks several times, so that an insert that was let through would be seen. */
async function countWhile (server: TestServer): Promise<string> {
  let count = ''
  for (let i = 0; i < 20; i++) count = (await server.ask('SELECT count() FROM held')).text.trim()
  return count
}

async function openHold (server: TestServer, user: keyof typeof TEST_PASSWORDS): Promise<Response> {
  return await fetch(`http://127.0.0.1:${server.port}/hold-inserts`, {
    method: 'POST', headers: { 'x-clickhouse-user': user, 'x-clickhouse-key': TEST_PASSWORDS[user] }
  })
}
