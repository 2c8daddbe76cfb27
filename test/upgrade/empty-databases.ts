import { randomBytes } from 'node:crypto'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { askForService } from '../support/shared-services.ts'
import type { TestContext } from '../support/test-context.ts'

/** Of one test. */
export interface Databases {
  sql: Sql
  clickhouse: ClickHouse
  env: { DATABASE_URL: string, CLICKHOUSE_URL: string }
}

/** Databases without any schema, on the servers of the run; they are dropped with the test. */
export async function createEmptyDatabases (t: TestContext): Promise<Databases> {
  const name = `test_${randomBytes(6).toString('hex')}`
  const [databaseUrl, clickhouseUrl] = [new URL(await askForService('postgres')), new URL(await askForService('clickhouse'))]
  const admin = connectPostgres({ url: databaseUrl.href, max: 1 })
  await admin.unsafe(`CREATE DATABASE ${name}`)
  databaseUrl.pathname = clickhouseUrl.pathname = `/${name}`
  const sql = connectPostgres({ url: databaseUrl.href, max: 2 })
  const clickhouse = connectClickHouse({ url: clickhouseUrl.href })
  t.teardown(async () => {
    await sql.end({ timeout: 1 })
    await admin.unsafe(`DROP DATABASE ${name} WITH (FORCE)`)
    await admin.end({ timeout: 1 })
    await clickhouse.command({ query: `DROP DATABASE IF EXISTS ${name}` })
    await clickhouse.close()
  })
  return { sql, clickhouse, env: { DATABASE_URL: databaseUrl.href, CLICKHOUSE_URL: clickhouseUrl.href } }
}
