import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { ClickHouseError } from '@clickhouse/client'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type ClickHouse, connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createSpares } from './process-end.ts'
import { askForService } from './shared-services.ts'
import type { TestContext } from './test-context.ts'
import { PATIENCE_MS } from './wait-for.ts'

export interface TestPostgres {
  /** What `DATABASE_URL` is set to in order to use it. */
  url: string
  sql: Sql
}

/** The limit of the API, for flags, is too short where files of tests start and copy databases beside each other. */
const CONNECT_TIMEOUT_MS = 30_000

/** Databases of this process whose tests have ended, and which are as new. */
const sparePostgres = createSpares(dropPostgres)

/**
 * Lends a migrated database to one test, on the Postgres of the run, with its pool of connections. After the test it is
 * emptied for the next test of this process, for a twentieth of the CPU of another copy: a copy begins with cold caches
 * in every connection. A database is given to nobody when its tables, functions or migrated rows were changed, or when
 * somebody is still connected.
 */
export async function createTestPostgres (t: TestContext): Promise<TestPostgres> {
  const spares = await sparePostgres(t)
  const database = spares.take() ?? await copyPostgresDatabase()
  freshState ??= readPostgresState(database.sql)
  const fresh = await freshState.catch((error: unknown) => { freshState = undefined; throw error })
  t.teardown(async () => {
    database.sql.onStatement = undefined
    // What cannot be asked any more is not as new.
    if (await emptyPostgres(database.sql, fresh).catch(() => false)) await spares.give(database)
    else await dropPostgres(database)
  })
  return { ...database }
}

async function copyPostgresDatabase (): Promise<TestPostgres> {
  const adminUrl = await askForService('postgres')
  const name = `test_${randomBytes(6).toString('hex')}`
  // A file copy costs two thirds of the other strategy, which writes every page to the log.
  await runAsAdmin(adminUrl, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE_DATABASE} STRATEGY FILE_COPY`)
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  const own = new URL(url)
  own.searchParams.set('application_name', OWN_CONNECTIONS)
  return { url: url.href, sql: connectPostgres({ url: own.href, max: 4, connectTimeoutMs: CONNECT_TIMEOUT_MS }) }
}

async function dropPostgres ({ url, sql }: TestPostgres): Promise<void> {
  await sql.end({ timeout: 1 })
  // FORCE: processes that the test started may still be connected.
  await runAsAdmin(await askForService('postgres'), `DROP DATABASE IF EXISTS ${new URL(url).pathname.slice(1)} WITH (FORCE)`)
}

async function runAsAdmin (url: string, statement: string): Promise<void> {
  const admin = connectPostgres({ url, max: 1, connectTimeoutMs: CONNECT_TIMEOUT_MS })
  try {
    await admin.unsafe(statement)
  } finally {
    await admin.end({ timeout: 1 })
  }
}

/** Tells the connections of the lent pool from those of what the test started. */
const OWN_CONNECTIONS = 'lent to a test'
/** A connection that was just closed is still in the list of the server for a moment. */
const GOODBYE = { checks: 10, everyMs: 10 }

/** What a new database of this process was like: its rows come from migrations. */
interface PostgresState {
  /** Tables with rows, and sequences that have been used. */
  filled: string[]
  used: string[]
  /** Of definitions, and of the rows of these tables. */
  digest: string
}

/** The same for all tests of this process. */
let freshState: Promise<PostgresState> | undefined

async function readPostgresState (sql: Sql): Promise<PostgresState> {
  const { filled, used } = await findUsed(sql)
  return { filled, used, digest: await digestPostgres(sql, filled) }
}

/** Every file of a table that had rows has a size until a VACUUM. */
async function findUsed (sql: Sql): Promise<Pick<PostgresState, 'filled' | 'used'>> {
  const [found] = await sql.unsafe<{ filled: string[], used: string[] }[]>(`
    SELECT array(SELECT oid::regclass::text FROM pg_class
      WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0) AS filled,
    array(SELECT seqrelid::regclass::text FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) IS NOT NULL) AS used`)
  return found!
}

/** A change of a definition writes a new version of a row of the catalogue, whose `xmin` is a later transaction. */
async function digestPostgres (sql: Sql, filled: readonly string[]): Promise<string> {
  const catalogues = ['attribute', 'attrdef', 'constraint', 'trigger', 'proc', 'type', 'rewrite', 'policy', 'event_trigger']
    .map((name) => `SELECT concat_ws(' ', count(*), max(xmin::text::bigint)) AS text FROM pg_${name}`)
  const rows = filled.map((table) => `SELECT string_agg(rows::text, ',' ORDER BY rows::text) FROM ${table} AS rows`)
  const [state] = await sql.unsafe<{ digest: string }[]>(`SELECT md5(string_agg(text, ';')) AS digest FROM (
    SELECT string_agg(concat_ws(' ', relname, relkind, relowner, relacl, relrowsecurity, reloptions), ',' ORDER BY oid) AS text
    FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT string_agg(concat_ws(' ', nspname, nspacl), ',' ORDER BY oid) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'
    UNION ALL SELECT concat_ws(' ', datallowconn, datconnlimit, datacl,
      (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = pg_database.oid),
      (SELECT count(*) FROM pg_locks WHERE database = pg_database.oid AND locktype = 'advisory')
    ) FROM pg_database WHERE datname = current_database()
    ${[...catalogues, ...rows].map((query) => `UNION ALL ${query}`).join('\n')})`)
  return state!.digest
}

/**
 * Deletes the rows of what was filled, and starts its sequences anew. TRUNCATE takes ten times as long: it would also
 * make new files for every table that refers to one of these, and for their indexes.
 *
 * @returns false when the database is no longer what migrating makes, or is still in use.
 */
async function emptyPostgres (sql: Sql, fresh: PostgresState): Promise<boolean> {
  for (let checks = 1; await isConnected(sql); checks++) {
    if (checks === GOODBYE.checks) return false
    await delay(GOODBYE.everyMs)
  }
  if (await digestPostgres(sql, fresh.filled) !== fresh.digest) return false
  const { filled, used } = await findUsed(sql)
  const tables = filled.filter((name) => !fresh.filled.includes(name))
  const sequences = used.filter((name) => !fresh.used.includes(name))
  const restarts = sequences.map((name) => `SELECT setval(seqrelid, seqstart, false) FROM pg_sequence WHERE seqrelid = '${name}'::regclass;`)
  const deletions = tables.map((name) => `DELETE FROM ${name};`)
  // As a replica: no trigger refuses it, and none does anything else.
  await sql.unsafe(`BEGIN; SET LOCAL session_replication_role = replica; ${deletions.join(' ')} COMMIT; ${restarts.join(' ')}`)
  if (tables.length > 0) await sql.unsafe(`VACUUM ${tables.join(', ')}`)
  return true
}

/** Whether anybody but the lent pool is connected, or a statement of the pool is running. */
async function isConnected (sql: Sql): Promise<boolean> {
  const others = await sql.unsafe(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid != pg_backend_pid() AND (application_name != '${OWN_CONNECTIONS}' OR state != 'idle')`)
  return others.length > 0
}

/** Code of ClickHouse's refusal to detach a database (`DATABASE_NOT_EMPTY`). */
const TABLES_IN_USE = '219'

export interface TestClickHouse {
  /** What `CLICKHOUSE_URL` is set to in order to use it. */
  url: string
  client: ClickHouse
}

/** Databases of this process whose tests have ended. */
const spare: string[] = []

/**
 * Lends a migrated, empty database to one test, on the ClickHouse of the run. After the test it is emptied for the next
 * test of this process: making one takes 0.2 s of CPU, and makes every insert and every further copy dearer, as the
 * server looks at the files of all tables. Not before that test begins: what the last one started may write until all
 * of its teardown is done. A database whose tables were altered is given to nobody; a test that stops merges has them
 * started again (`stopMerges`).
 */
export async function createTestClickHouse (t: TestContext): Promise<TestClickHouse> {
  const serverUrl = await askForService('clickhouse')
  const server = connectClickHouse({ url: serverUrl, requestTimeoutMs: PATIENCE_MS })
  const database = await takeSpare(server) ?? await copyClickHouseDatabase(server)
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  const client = connectClickHouse({ url: url.href, requestTimeoutMs: PATIENCE_MS })
  t.teardown(async () => {
    spare.push(database)
    await Promise.all([server.close(), client.close()])
  })
  return { url: url.href, client }
}

async function takeSpare (server: ClickHouse): Promise<string | undefined> {
  for (let database = spare.pop(); database !== undefined; database = spare.pop()) {
    if (await emptyDatabase(server, database)) return database
    await detachDatabase(server, database)
  }
  return undefined
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
  /** Tables with parts; all others are empty. */
  filled: string[]
}

/** @returns false when the database is no longer what migrating makes, or is still in use. */
async function emptyDatabase (server: ClickHouse, database: string): Promise<boolean> {
  const [template, own] = await Promise.all([
    templateState ??= readState(server, TEMPLATE_DATABASE), readState(server, database)
  ])
  if (own.left > 0 || own.definitions !== template.definitions) return false
  await Promise.all(own.filled.map(async (name) => await server.command({ query: `TRUNCATE TABLE ${database}.${name}` })))
  return true
}

/** In one query: a second one made lending a database a sixth dearer. */
async function readState (server: ClickHouse, database: string): Promise<DatabaseState> {
  const [state] = await queryRows<DatabaseState>(server, `
    SELECT toString(cityHash64(groupArray(text))) AS definitions, toUInt32(
      (SELECT count() FROM system.mutations WHERE database = {database:String}) +
      (SELECT count() FROM system.processes WHERE current_database = {database:String})) AS left,
      groupArrayIf(name, is_filled) AS filled
    FROM (
      SELECT name, (replaceAll(create_table_query, {database:String}, ''), if(name = 'schema_migrations', total_rows, 0)) AS text,
        name != 'schema_migrations' AND engine NOT LIKE '%View' AND (ifNull(total_rows, 0) != 0
          OR name IN (SELECT table FROM system.parts WHERE database = {database:String})) AS is_filled
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
