import { randomBytes } from 'node:crypto'
import { ClickHouseError } from '@clickhouse/client'
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

/** Code of ClickHouse's refusal to detach a database (`DATABASE_NOT_EMPTY`). */
const TABLES_IN_USE = '219'

export interface TestClickHouse {
  /** What `CLICKHOUSE_URL` is set to in order to use it. */
  url: string
  client: ClickHouse
}

/** Creates a migrated database for one test, on the ClickHouse of the run; it is detached after the test. */
export async function createTestClickHouse (t: TestContext): Promise<TestClickHouse> {
  const database = `test_${randomBytes(6).toString('hex')}`
  const serverUrl = await askForService('clickhouse')
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  const server = connectClickHouse({ url: serverUrl })
  const client = connectClickHouse({ url: url.href })
  t.teardown(async () => {
    // Detached is enough: the files go with the server.
    await server.command({ query: `DETACH DATABASE IF EXISTS ${database}` }).catch((error: unknown) => {
      if (!(error instanceof ClickHouseError && error.code === TABLES_IN_USE)) throw error
    })
    await Promise.all([server.close(), client.close()])
  })
  await copyClickHouseDatabase(server, database)
  return { url: url.href, client }
}

/**
 * Creates a database as the template was when it was migrated: the same tables and views, empty, and the same
 * migrations recorded. In two statements: one for each table took three times the CPU.
 */
async function copyClickHouseDatabase (server: ClickHouse, database: string): Promise<void> {
  const view = await (viewStatement ??= readViewStatement(server))
  await server.command({ query: `RESTORE DATABASE ${TEMPLATE_DATABASE} AS ${database} FROM ${TEMPLATE_BACKUP.file}` })
  await server.command({ query: view.replaceAll(TEMPLATE_DATABASE, database) })
}

/** The same for all tests of this process. */
let viewStatement: Promise<string> | undefined

async function readViewStatement (server: ClickHouse): Promise<string> {
  const view = await server.query({ query: `SHOW CREATE TABLE ${TEMPLATE_BACKUP.without}`, format: 'TabSeparatedRaw' })
  return await view.text()
}

/**
 * The migrated database that every test's own is a copy of, by this name in Postgres and in ClickHouse: copying takes
 * a tenth of migrating in the one, a sixth in the other.
 *
 * Migrating also attaches the materialized views of ClickHouse again, for what repeats an insert after a restart of the
 * server; the server of the run is never restarted.
 */
export const TEMPLATE_DATABASE = 'millrace_template'
/**
 * What the copies in ClickHouse are made from. Without a view: under another name a database is restored without the
 * aliases of its tables.
 */
export const TEMPLATE_BACKUP = { file: `File('${TEMPLATE_DATABASE}')`, without: `${TEMPLATE_DATABASE}.events_with_person` }
