import { randomBytes } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type ClickHouse, connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { askForService } from './shared-services.ts'
import type { TestContext } from './test-context.ts'

export interface TestPostgres {
  /** What `DATABASE_URL` is set to in order to use it. */
  url: string
  sql: Sql
}

/** The limit of the API, for flags, is too short where files of tests start and copy databases beside each other. */
const CONNECT_TIMEOUT_MS = 30_000

/** Creates a migrated database for one test, on the Postgres of the run; it is dropped with the test. */
export async function createTestPostgres (t: TestContext): Promise<TestPostgres> {
  const adminUrl = await askForService('postgres')
  const database = `test_${randomBytes(6).toString('hex')}`
  // A file copy costs two thirds of the other strategy, which writes every page to the log.
  await runAsAdmin(adminUrl, `CREATE DATABASE ${database} TEMPLATE ${TEMPLATE_DATABASE} STRATEGY FILE_COPY`)
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  const sql = connectPostgres({ url: url.href, max: 4, connectTimeoutMs: CONNECT_TIMEOUT_MS })
  t.teardown(async () => {
    await sql.end({ timeout: 1 })
    // FORCE: processes that the test started may still be connected.
    await runAsAdmin(adminUrl, `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
  })
  return { url: url.href, sql }
}

async function runAsAdmin (url: string, statement: string): Promise<void> {
  const admin = connectPostgres({ url, max: 1, connectTimeoutMs: CONNECT_TIMEOUT_MS })
  try {
    await admin.unsafe(statement)
  } finally {
    await admin.end({ timeout: 1 })
  }
}

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

/**
 * Creates a database as the template was when it was migrated: the same tables and views, empty, and the same
 * migrations recorded. A third of the requests that migrating takes.
 *
 * Migrating also attaches the materialized views again, for what repeats an insert after a restart of the server; the
 * server of the run is never restarted.
 *
 * @param server  A client whose database exists.
 */
async function copyClickHouseDatabase (server: ClickHouseClient, database: string): Promise<void> {
  templateStatements ??= readTemplate(server)
  const statements = await templateStatements
  await server.command({ query: `CREATE DATABASE ${database}` })
  for (const statement of statements) await server.command({ query: statement.replaceAll(TEMPLATE_DATABASE, database) })
  await server.command({
    query: `INSERT INTO ${database}.schema_migrations SELECT * FROM ${TEMPLATE_DATABASE}.schema_migrations`
  })
}

/** The same for all tests of this process. */
let templateStatements: Promise<string[]> | undefined

async function readTemplate (server: ClickHouseClient): Promise<string[]> {
  // What views read comes before them.
  const tables = await server.query({
    query: `SELECT create_table_query AS statement FROM system.tables WHERE database = {database:String}
      ORDER BY engine LIKE '%View', name`,
    query_params: { database: TEMPLATE_DATABASE },
    format: 'JSONEachRow'
  })
  return (await tables.json<{ statement: string }>()).map(({ statement }) => statement)
}

/**
 * The migrated database that every test's own is a copy of, by this name in Postgres and in ClickHouse: copying takes
 * a tenth of migrating in the one, a third in the other.
 */
export const TEMPLATE_DATABASE = 'millrace_template'
