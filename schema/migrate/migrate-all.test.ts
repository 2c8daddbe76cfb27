import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { askForService } from '../../test/support/shared-services.ts'
import { describeVersion } from '../version.ts'
import { migrateAll, type MigrateOptions } from './migrate-all.ts'

const IS_LONG = process.env.MILLRACE_TEST_LONG === '1'
/** When the first run is killed, and how much later each further one. By a factor: on a slow machine few are enough. */
const FIRST_KILL_MS = IS_LONG ? 100 : 400
const nextKill = (afterMs: number): number => IS_LONG ? afterMs + 50 : afterMs * 1.5
/** Number of the newest migrations that are forgotten one at a time. */
const FORGOTTEN_ALONE = IS_LONG ? Infinity : 2

interface Databases extends MigrateOptions {
  sql: Client
  clickhouse: ReturnType<typeof createClient>
}

/** An empty database on both services, dropped with the test. */
async function createEmptyDatabases (t: Test): Promise<Databases> {
  const database = `test_migrate_${randomBytes(6).toString('hex')}`
  const [postgresUrl, clickhouseUrl] = (await Promise.all([askForService('postgres'), askForService('clickhouse')]))
    .map((text) => new URL(text)) as [URL, URL]
  const admin = new Client({ connectionString: postgresUrl.href })
  await admin.connect()
  await admin.query(`CREATE DATABASE ${database} TEMPLATE template0`)
  const server = createClient({ url: clickhouseUrl.href })
  postgresUrl.pathname = clickhouseUrl.pathname = `/${database}`
  const sql = new Client({ connectionString: postgresUrl.href })
  await sql.connect()
  // It is asked before its tables exist, too.
  const clickhouse = createClient({ url: clickhouseUrl.href, log: { level: ClickHouseLogLevel.OFF } })
  t.teardown(async () => {
    await sql.end()
    await admin.query(`DROP DATABASE ${database} WITH (FORCE)`)
    await admin.end()
    await server.command({ query: `DROP DATABASE IF EXISTS ${database}` })
    await Promise.all([server.close(), clickhouse.close()])
  })
  return { databaseUrl: postgresUrl.href, clickhouseUrl: clickhouseUrl.href, sql, clickhouse }
}

/** Everything that migrations make, as text. */
async function describeSchema ({ sql, clickhouse }: Databases): Promise<string[]> {
  const tables = await (await clickhouse.query({
    query: `SELECT replaceAll(create_table_query, currentDatabase(), 'db') AS text FROM system.tables
      WHERE database = currentDatabase() AND name NOT LIKE '.inner%' ORDER BY name`,
    format: 'JSONEachRow'
  })).json<{ text: string }>()
  const { rows } = await sql.query<{ text: string }>(
    `SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) AS text
     FROM information_schema.columns WHERE table_schema = 'public'
     UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY text`)
  return [...tables, ...rows].map(({ text }) => text)
}

async function countRecorded ({ clickhouse }: Databases): Promise<number> {
  const result = await clickhouse.query({
    query: 'SELECT toUInt32(uniqExact(name)) AS count FROM schema_migrations', format: 'JSONEachRow'
  }).catch(() => undefined)
  return (await result?.json<{ count: number }>())?.[0]?.count ?? 0
}

const MIGRATIONS = ['postgres', 'clickhouse']
  .flatMap((database) => globSync(`${database}/*.sql`, { cwd: path.join(import.meta.dirname, '..') }))
  .map((file) => file.replace('.sql', ''))
  .sort()

/** Migrated by the first test; the others leave its schema as it is. */
const migrated = await createEmptyDatabases(t)

t.test('processes that start at once take turns, and one of them applies everything', async (t) => {
  const results = await Promise.all(Array.from({ length: 5 }, async () => await migrateAll(migrated)))

  const applied = results.filter((names) => names.length > 0)
  t.equal(applied.length, 1)
  t.same(applied[0]?.toSorted(), MIGRATIONS)
  t.same(await migrateAll(migrated), [])
})

t.test('a run that was killed at any moment is continued by the next', async (t) => {
  const killed = await createEmptyDatabases(t)
  const recorded = new Set<number>()

  const script = `import { migrateAll } from '${import.meta.resolve('./migrate-all.ts')}'
    await migrateAll({ databaseUrl: process.env.DATABASE_URL, clickhouseUrl: process.env.CLICKHOUSE_URL })`
  const { PATH, NODE_COMPILE_CACHE } = process.env
  let code: number | null = null
  for (let afterMs = FIRST_KILL_MS; code !== 0; afterMs = nextKill(afterMs)) {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      env: { PATH, NODE_COMPILE_CACHE, DATABASE_URL: killed.databaseUrl, CLICKHOUSE_URL: killed.clickhouseUrl },
      stdio: ['ignore', 'ignore', 'inherit']
    })
    const ended = once(child, 'exit') as Promise<[number | null]>
    await Promise.race([ended, delay(afterMs)])
    child.kill('SIGKILL')
    code = (await ended)[0]
    if (code !== null && code !== 0) throw new Error(`a migration ended with ${code}`)
    recorded.add(await countRecorded(killed))
  }

  t.comment(`migrations recorded after each kill: ${[...recorded].join(', ')}`)
  t.same(await describeSchema(killed), await describeSchema(migrated))
  t.same(await migrateAll(killed), [])
})

t.test('a statement that was applied but not recorded is applied again and changes nothing', async (t) => {
  const schema = await describeSchema(migrated)
  // 0.1.0 wrote this one with the migration, and the checksum after it.
  await migrated.sql.query('CREATE TABLE schema_migrations AS SELECT name FROM schema_migration_checksums')

  const inClickHouse = MIGRATIONS.filter((name) => name.startsWith('clickhouse/')).map((name) => name.split('/')[1]!)
  for (const forgotten of [inClickHouse, ...inClickHouse.slice(-FORGOTTEN_ALONE).map((name) => [name])]) {
    await migrated.clickhouse.command({
      query: 'ALTER TABLE schema_migrations DELETE WHERE has({forgotten: Array(String)}, name) SETTINGS mutations_sync = 2',
      query_params: { forgotten }
    })
    await migrated.sql.query('DELETE FROM schema_migration_checksums WHERE name > $1', ['0003'])
    t.same(await migrateAll(migrated), forgotten.map((name) => `clickhouse/${name}`))
    t.equal(await countRecorded(migrated), inClickHouse.length, `${forgotten[0]} and ${forgotten.length - 1} more`)
  }
  await migrated.sql.query('DROP TABLE schema_migrations')
  t.same(await describeSchema(migrated), schema)
})

t.test('refuses a database of a newer version, and a released migration that was edited', async (t) => {
  const databases = await createEmptyDatabases(t)
  await migrateAll(databases)
  await databases.sql.query("INSERT INTO schema_migration_checksums VALUES ('9999_add_future', 'x')")
  await t.rejects(migrateAll(databases), { code: 'MILLRACE_MIGRATION_UNKNOWN', message: /run the version that made it, or a newer one/ })

  await databases.sql.query("DELETE FROM schema_migration_checksums WHERE name = '9999_add_future'")
  // One of the table that 0.1.0 kept beside the checksums.
  await databases.sql.query("CREATE TABLE schema_migrations AS SELECT '9999_add_future' AS name, now() AS run_on")
  await t.rejects(migrateAll(databases), { code: 'MILLRACE_MIGRATION_UNKNOWN', message: /postgres has migration 9999_add_future/ })
  await databases.sql.query('DROP TABLE schema_migrations')

  // A newer release may have no migrations; its clock may have been behind.
  for (const [oldest, works, commit] of [['9.1.0', ', which works with 9.1.0 and newer', ''], ['0.0.1', '', 'abcdef0123456789']] as const) {
    await databases.sql.query("INSERT INTO schema_versions VALUES ('9.1.0', $1, '{}', '2020-01-01', $2)", [oldest, commit])
    const message = `the database was migrated by Millrace 9.1.0 (commit ${commit === '' ? 'unknown' : commit.slice(0, 12)})${works}, and this is ${describeVersion()}: run 9.1.0, or restore a backup of before the upgrade`
    await t.rejects(migrateAll(databases), { code: 'MILLRACE_DATABASE_NEWER', message })
    await databases.sql.query("DELETE FROM schema_versions WHERE version = '9.1.0'")
  }
  t.same(await migrateAll(databases), [])

  await databases.sql.query("UPDATE schema_migration_checksums SET checksum = 'x' WHERE name LIKE '0001%'")
  await t.rejects(migrateAll(databases), { code: 'MILLRACE_MIGRATION_CHANGED' })
})

t.test('refuses databases of development states before the first release as of another version', async (t) => {
  const databases = await createEmptyDatabases(t)
  await databases.sql.query('CREATE TABLE schema_migrations (id serial, name text, run_on timestamp)')
  await databases.sql.query("INSERT INTO schema_migrations (name) VALUES ('0001_create_projects'), ('0002_create_users')")
  await t.rejects(migrateAll(databases), { code: 'MILLRACE_MIGRATION_UNKNOWN', message: /^postgres has migration 0001_create_projects, .*: run the version that made it/ })

  await migrated.clickhouse.insert({ table: 'schema_migrations', values: [{ name: '0001_create_events', checksum: 'x' }], format: 'JSONEachRow' })
  await t.rejects(migrateAll(migrated), { code: 'MILLRACE_MIGRATION_UNKNOWN', message: /^clickhouse has migration 0001_create_events/ })
})
