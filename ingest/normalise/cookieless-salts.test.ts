import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { openCookielessSalts } from './cookieless-salts.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 21, 12)
const TODAY = Math.floor(NOW / DAY_MS)

t.test('every process has the same salts, from the day before yesterday to tomorrow', async (t) => {
  const { sql } = await createTestPostgres(t)
  const keepers = Array.from({ length: 5 }, () => openCookielessSalts(sql, logger, () => NOW))
  t.teardown(async () => await Promise.all(keepers.map(async ({ stop }) => await stop())))
  await waitFor(() => keepers.every(({ current }) => current.size === 4))

  const [first, ...others] = keepers.map(({ current }) => current)

  t.same([...first!.keys()].sort(), [TODAY - 2, TODAY - 1, TODAY, TODAY + 1])
  t.equal(new Set([...first!.values()].map(String)).size, 4, 'each is another')
  for (const other of others) t.same(new Map([...other].sort()), new Map([...first!].sort()))
})

t.test('a day later the oldest salt is destroyed, and the others are the same', async (t) => {
  const { sql } = await createTestPostgres(t)
  const before = openCookielessSalts(sql, logger, () => NOW)
  await waitFor(() => before.current.size > 0)
  await before.stop()

  const after = openCookielessSalts(sql, logger, () => NOW + DAY_MS)
  await waitFor(() => after.current.size > 0)
  await after.stop()

  t.same([...after.current.keys()].sort(), [TODAY - 1, TODAY, TODAY + 1, TODAY + 2])
  t.same(after.current.get(TODAY), before.current.get(TODAY))
  t.same(await sql`SELECT count(*)::integer AS salts FROM cookieless_salts`, [{ salts: 4 }])
})

t.test('without Postgres there are no salts, and nobody waits for them', async (t) => {
  const nowhere = connectPostgres({ url: 'postgres://nobody@127.0.0.1:9/none', max: 1 })
  const keeper = openCookielessSalts(nowhere, logger, () => NOW)

  await keeper.tried
  t.equal(keeper.current.size, 0)

  await keeper.stop()
  await nowhere.end({ timeout: 0 })
})

t.end()
