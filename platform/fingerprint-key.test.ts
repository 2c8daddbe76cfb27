import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import t from 'tap'
import { createTestPostgres } from '../test/support/test-stores.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { openFingerprintKey } from './fingerprint-key.ts'
import { createLogger } from './logger.ts'
import { connectPostgres } from './postgres/connect-postgres.ts'

const logger = createLogger({ component: 'test', level: 'silent' })

t.test('every process of a deployment reads the same key', async (t) => {
  const { sql } = await createTestPostgres(t)
  const [one, other] = [openFingerprintKey(sql, logger), openFingerprintKey(sql, logger)]

  // A try gives up after two seconds, and the next one begins.
  const key = await waitFor(async () => await one.read())

  t.match(key.id, /^[0-9a-f]{16}$/)
  t.same(await waitFor(async () => await other.read()), key)
  t.same(one.current, key)
})

t.test('without the key, and with a server that hangs, nobody waits for it', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`DELETE FROM fingerprint_keys`
  const empty = openFingerprintKey(sql, logger)
  t.equal(await empty.read(), null)
  await empty.stop()

  const server = createServer(() => {}).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const hanging = connectPostgres({ url: `postgres://nobody@127.0.0.1:${(server.address() as AddressInfo).port}/none`, max: 1 })
  const reader = openFingerprintKey(hanging, logger)

  t.equal(await reader.read(), null)

  await reader.stop()
  await hanging.end({ timeout: 0 })
  server.close()
})
