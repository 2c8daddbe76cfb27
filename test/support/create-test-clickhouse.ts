import { randomBytes } from 'node:crypto'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { askForService } from './ask-for-service.ts'
import { copyClickHouseDatabase } from './copy-clickhouse-database.ts'
import { type TestContext } from './test-context.ts'

export interface TestClickHouse {
  /** What `CLICKHOUSE_URL` is set to in order to use it. */
  url: string
  client: ClickHouse
}

/** Creates a migrated database for one test, on the ClickHouse of the run; it is dropped with the test. */
export async function createTestClickHouse (t: TestContext): Promise<TestClickHouse> {
  const database = `test_${randomBytes(6).toString('hex')}`
  const serverUrl = await askForService('clickhouse')
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  const server = connectClickHouse({ url: serverUrl })
  const client = connectClickHouse({ url: url.href })
  t.teardown(async () => {
    await server.command({ query: `DROP DATABASE IF EXISTS ${database}` })
    await Promise.all([server.close(), client.close()])
  })
  await copyClickHouseDatabase(server, database)
  return { url: url.href, client }
}
