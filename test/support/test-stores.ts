import { randomBytes } from 'node:crypto'
import { ClickHouseError } from '@clickhouse/client'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type ClickHouse, connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
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

/** Databases of this process whose tests have ended, and which are as new. */
const spare: string[] = []

/**
 * Lends a migrated, empty database to one test, on the ClickHouse of the run. After the test it is emptied for the next
 * test of this process: making one takes 0.2 s of CPU, and makes every insert and every further copy dearer, as the
 * server looks at the files of all tables. A database whose tables were altered is given to nobody; a test that stops
 * merges has them started again (`stopMerges`).
 */
export async function createTestClickHouse (t: TestContext): Promise<TestClickHouse> {
  const serverUrl = await askForService('clickhouse')
  const server = connectClickHouse({ url: serverUrl })
  const database = spare.pop() ?? await copyClickHouseDatabase(server)
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  const client = connectClickHouse({ url: url.href })
  t.teardown(async () => {
    if (await emptyDatabase(server, database)) spare.push(database)
    else await detachDatabase(server, database)
    await Promise.all([server.close(), client.close()])
  })
  return { url: url.href, client }
}

/**
 * Creates a database as the template was when it was migrated: the same tables and views, empty, and the same
 * migrations recorded. In two statements: one for each table took three times the CPU.
 *
 * @returns its name.
 */
async function copyClickHouseDatabase (server: ClickHouse): Promise<string> {
  const database = `test_${randomBytes(6).toString('hex')}`
  const view = await (viewStatement ??= readViewStatement(server))
  await server.command({ query: `RESTORE DATABASE ${TEMPLATE_DATABASE} AS ${database} FROM ${TEMPLATE_BACKUP.file}` })
  await server.command({ query: view.replaceAll(TEMPLATE_DATABASE, database) })
  return database
}

/** The same for all tests of this process. */
let viewStatement: Promise<string> | undefined

async function readViewStatement (server: ClickHouse): Promise<string> {
  const view = await server.query({ query: `SHOW CREATE TABLE ${TEMPLATE_BACKUP.without}`, format: 'TabSeparatedRaw' })
  return await view.text()
}

/** The same for all tests of this process. */
let templateState: Promise<DatabaseState> | undefined

/** What has to be as in the template before another test gets the database. */
interface DatabaseState {
  /** Statements of tables and views, and how many migrations are recorded. */
  definitions: string
  /** Queries that run, and mutations, which stay in a list that tests read. */
  left: number
}

/** @returns false when the database is no longer what migrating makes, or is still in use. */
async function emptyDatabase (server: ClickHouse, database: string): Promise<boolean> {
  const [template, own] = await Promise.all([
    templateState ??= readState(server, TEMPLATE_DATABASE), readState(server, database)
  ])
  if (own.left > 0 || own.definitions !== template.definitions) return false
  const filled = await queryRows<{ name: string }>(server, `
    SELECT name FROM system.tables WHERE database = {database:String} AND name != 'schema_migrations' AND engine NOT LIKE '%View'
      AND (total_rows != 0 OR name IN (SELECT table FROM system.parts WHERE database = {database:String}))`, { database })
  await Promise.all(filled.map(async ({ name }) => await server.command({ query: `TRUNCATE TABLE ${database}.${name}` })))
  return true
}

async function readState (server: ClickHouse, database: string): Promise<DatabaseState> {
  const [state] = await queryRows<DatabaseState>(server, `
    SELECT toString(cityHash64(groupArray(text))) AS definitions, toUInt32(
      (SELECT count() FROM system.mutations WHERE database = {database:String}) +
      (SELECT count() FROM system.processes WHERE current_database = {database:String})) AS left
    FROM (
      SELECT (replaceAll(create_table_query, {database:String}, ''), if(name = 'schema_migrations', total_rows, 0)) AS text
      FROM system.tables WHERE database = {database:String} ORDER BY name
    )`, { database })
  return state!
}

/** Detached is enough: the files go with the server. */
async function detachDatabase (server: ClickHouse, database: string): Promise<void> {
  await server.command({ query: `DETACH DATABASE IF EXISTS ${database}` }).catch((error: unknown) => {
    if (!(error instanceof ClickHouseError && error.code === TABLES_IN_USE)) throw error
  })
}

/** Keeps the parts of tables as they are inserted until the end of a test: the next one has the same database. */
export async function stopMerges (t: TestContext, client: ClickHouse, tables: readonly string[]): Promise<void> {
  for (const table of tables) await client.command({ query: `SYSTEM STOP MERGES ${table}` })
  t.teardown(async () => {
    for (const table of tables) await client.command({ query: `SYSTEM START MERGES ${table}` })
  })
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
