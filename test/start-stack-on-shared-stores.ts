import { startStack, type Stack } from './start-stack.ts'
import { createTestClickHouse } from './support/create-test-clickhouse.ts'
import { createTestPostgres } from './support/create-test-postgres.ts'
import { type TestContext } from './support/test-context.ts'

/**
 * The whole system with databases of its own in the Postgres and ClickHouse of the run, so that it starts neither. For
 * tests that break neither. It is gone after the test.
 *
 * @param env  Further settings.
 */
export async function startStackOnSharedStores (t: TestContext, env: Record<string, string> = {}): Promise<Stack> {
  const { url: databaseUrl } = await createTestPostgres(t)
  const { url: clickhouseUrl } = await createTestClickHouse(t)
  const stack = await startStack({ env: { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, ...env } })
  t.teardown(async () => { await stack.stop() })
  return stack
}
