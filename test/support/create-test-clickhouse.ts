import { randomBytes } from 'node:crypto'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { askForService } from './ask-for-service.ts'
import { type TestContext } from './test-context.ts'

export interface TestClickHouse {
  /** What `CLICKHOUSE_URL` is set to in order to use it. */
  url: string
  client: ClickHouse
}

/** Creates a migrated database for one test, on the ClickHouse of the run; it is dropped with the test. */
export async function createTestClickHouse (t: TestContext): Promise<TestClickHouse> {
  const database = `test_${randomBytes(6).toString('hex')}`
  const url = new URL(await askForService('clickhouse'))
  url.pathname = `/${database}`
  await migrateClickHouse(url.href, {})
  const client = connectClickHouse({ url: url.href })
  t.teardown(async () => {
    await client.command({ query: `DROP DATABASE IF EXISTS "${database}"` })
    await client.close()
  })
  return { url: url.href, client }
}
