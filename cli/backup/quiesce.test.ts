import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { whileInsertsAreHeld } from './quiesce.ts'

t.test('a server that begins to answer, and never says that it holds inserts back, is not waited for', { timeout: 10_000 }, async (t) => {
  const server = createServer((_, response) => { response.flushHeaders() }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/millrace`
  await t.rejects(whileInsertsAreHeld(url, async () => {}, 100), {
    code: 'MILLRACE_BACKUP_INSERTS_NOT_HELD', message: 'ClickHouse did not hold inserts back: no answer within 0.1 s'
  })
})
