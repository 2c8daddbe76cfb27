/**
 * The definitions of everything in ClickHouse, as it keeps them on the disk: with passwords, and also of views that no
 * longer work. A restore attaches what Millrace's own migrations do not make, as a start of the server would.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { quoteIdentifier } from 'chdb-server/sql-lexer'
import { errorCode } from '../../engines/errors.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { CLICKHOUSE_FOLDER } from '../../schema/migrate/migrate-clickhouse.ts'
import { listTables, readMigrations } from '../../schema/migrate/read-migrations.ts'
import { type DatabaseRow, LIST_DATABASES, LIST_DETACHED, LIST_OBJECTS, type ObjectRow } from '../../schema/backup-statements.ts'

/** Statement that makes a function, a collection, a database, or something in a database. */
export interface Definition {
  /** For people: `marts.daily (MergeTree)`. */
  what: string
  sql: string
  /** Its name, if it is in a database. */
  table?: string
  /** Of what keeps its rows in a folder of its own, which is named after this id. */
  uuid?: string
  /** Made when the tables have their rows: a view may be refreshed at once, into a table that replaces its own. */
  isView?: boolean
}

export interface LeftOut {
  /** For people. */
  what: string
  /** False: another system keeps it. */
  isLost: boolean
}

export interface ClickHouseDefinitions {
  definitions: Definition[]
  /** Tables that consist of parts, each with the name of its folder in a backup. */
  tables: (ObjectRow & { key: string })[]
  leftOut: LeftOut[]
}

/** They have no rows of their own. */
const WITHOUT_ROWS = new Set(['View', 'MaterializedView', 'WindowView', 'Dictionary', 'Null', 'Merge', 'Alias', 'GenerateRandom'])

/** For ClickHouse, these have no data of their own either. */
const IN_MEMORY = new Set(['Memory', 'Buffer'])

/** Engines of databases whose tables this server keeps. */
const LOCAL_DATABASES = new Set(['Atomic', 'Ordinary', 'Overlay', 'Memory'])

/** Folders of objects outside of databases, in the order of creation. */
const OF_THE_SERVER = { user_defined: 'function', named_collections: 'named collection' } as const

/** @param dataDir  Data folder of ClickHouse, on this machine. */
export async function readDefinitions (clickhouse: ClickHouse, dataDir: string): Promise<ClickHouseDefinitions> {
  const found: ClickHouseDefinitions = { definitions: [], tables: [], leftOut: [] }
  const { definitions, tables, leftOut } = found
  for (const [folder, kind] of Object.entries(OF_THE_SERVER)) {
    for (const file of await readdir(path.join(dataDir, folder)).catch(() => [])) {
      definitions.push({ what: `${kind} ${path.basename(file, '.sql')}`, sql: await readFile(path.join(dataDir, folder, file), 'utf8') })
    }
  }
  const databases = await queryRows<DatabaseRow>(clickhouse, LIST_DATABASES)
  for (const { name, engine } of databases) {
    const what = `database ${quoteIdentifier(name)} (${engine})`
    const text = await readText(path.join(dataDir, 'metadata', `${escapeName(name)}.sql`))
    // The first line is "ATTACH DATABASE" with the name or the id.
    if (text !== undefined) definitions.push({ what, sql: `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(name)}${text.slice(text.indexOf('\n'))}` })
    if (!LOCAL_DATABASES.has(engine)) leftOut.push({ what: `${what}: its tables, which another system keeps (the definition is included)`, isLost: false })
  }
  const ofMigrations = new Set(listTables(await readMigrations(CLICKHOUSE_FOLDER)))
  for (const object of await listObjects(clickhouse)) {
    const { database, name, engine } = object
    const table = quoteTable(object)
    const what = `${table} (${engine})`
    const text = await readText(path.join(dataDir, 'metadata', escapeName(database), `${escapeName(name)}.sql`))
    // Only the definition knows it in every kind of database.
    const [, uuid = ''] = /^[^']* UUID '([0-9a-f-]{36})'/.exec(text ?? '') ?? []
    const loss = text === undefined ? { why: 'exists in memory only, or was dropped during the backup', isLost: true } : describeLoss(object)
    const isOurs = Boolean(object.isOwn) && ofMigrations.has(name)
    if (loss !== undefined && !isOurs) leftOut.push({ what: `${what}: ${loss.why}`, isLost: loss.isLost })
    if (text === undefined) continue
    const sql = text.replace(/^(\w+) ([A-Z ]+) _ UUID/, (_, verb: string, kind: string) => `${verb} ${kind} ${table} UUID`)
    definitions.push({ what, sql, table, isView: engine.endsWith('View'), ...isOfParts(object) || object.hasData ? { uuid } : {} })
    // A restore makes the list of migrations itself.
    if (isOfParts(object) && !(object.isOwn && name === 'schema_migrations')) tables.push({ ...object, key: object.isOwn && /^\w+$/.test(name) ? name : uuid })
  }
  const detached = await queryRows<Pick<ObjectRow, 'database' | 'name'> & { what: string }>(clickhouse, LIST_DETACHED)
  leftOut.push(...detached.map(({ what, ...table }) => ({ what: `${quoteTable(table)}: ${what}`, isLost: true })))
  return found
}

export async function listObjects (clickhouse: ClickHouse): Promise<ObjectRow[]> {
  const databases = (await queryRows<DatabaseRow>(clickhouse, LIST_DATABASES))
    .filter(({ engine }) => LOCAL_DATABASES.has(engine)).map(({ name }) => name)
  return await queryRows<ObjectRow>(clickhouse, LIST_OBJECTS, { databases })
}

/** Why not all of something is in a backup; undefined when all of it is. */
function describeLoss (object: ObjectRow): { why: string, isLost: boolean } | undefined {
  const { engine, rows, hasData } = object
  if (isOfParts(object) || WITHOUT_ROWS.has(engine) || rows === 0) return undefined
  return hasData || IN_MEMORY.has(engine)
    ? { why: 'its rows (only the definition is included)', isLost: true }
    : { why: 'its rows, which another system keeps (the definition is included)', isLost: false }
}

const isOfParts = ({ engine }: ObjectRow): boolean => engine.endsWith('MergeTree')

export const quoteTable = ({ database, name }: Pick<ObjectRow, 'database' | 'name'>): string =>
  `${quoteIdentifier(database)}.${quoteIdentifier(name)}`

/**
 * Creates missing objects, in the order of their dependencies. Tables are empty: their rows are
 * restored later.
 *
 * @param dataDir  Data folder of ClickHouse, on this machine.
 * @returns what could not be made, and why.
 */
export async function restoreDefinitions (
  clickhouse: ClickHouse, dataDir: string, definitions: readonly Definition[]
): Promise<(Definition & LeftOut)[]> {
  const present = new Set((await listObjects(clickhouse)).map(quoteTable))
  let waiting = definitions.filter(({ table = '' }) => !present.has(table))
  for (;;) {
    const failed: (Definition & { why: string })[] = []
    for (const definition of waiting) {
      if (definition.uuid !== undefined) await makeTableFolder(dataDir, definition.uuid)
      await clickhouse.command({ query: definition.sql })
        .catch((error: Error) => { failed.push({ ...definition, why: error.message }) })
    }
    if (failed.length === waiting.length) return failed.map(({ why, ...each }) => ({ ...each, what: `${each.what}: could not be created (${why.slice(0, 200)})`, isLost: true }))
    waiting = failed
  }
}

/** ATTACH finds the folder of a table there: for one of parts with a file that says so. */
async function makeTableFolder (dataDir: string, uuid: string): Promise<void> {
  const folder = path.join(dataDir, 'store', uuid.slice(0, 3), uuid)
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'format_version.txt'), '1')
}

/** A name as ClickHouse writes it into a path. */
const escapeName = (name: string): string => Buffer.from(name).toString('latin1')
  .replace(/\W/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)

/** Undefined when there is no such file. */
async function readText (file: string): Promise<string | undefined> {
  return await readFile(file, 'utf8').catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  })
}
