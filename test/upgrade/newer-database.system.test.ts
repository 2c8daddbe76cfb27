import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { migrateAll } from '../../schema/migrate/migrate-all.ts'
import { readMigrations } from '../../schema/migrate/read-migrations.ts'
import { describeVersion, readVersion } from '../../schema/version.ts'
import { startTestNats } from '../support/test-processes.ts'
import { createEmptyDatabases } from './empty-databases.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

t.test('an upgrade applies missing migrations, and nothing goes back', async (t) => {
  const { sql, clickhouse, env } = await createEmptyDatabases(t)
  const nats = await startTestNats(t)
  // As if the last migration of each were of this version.
  const [postgres, inClickHouse] = await Promise.all((['postgres', 'clickhouse'] as const).map(async (database) =>
    (await readMigrations(path.join(ROOT, 'schema', database))).map(({ name }) => name)))
  const urls = { databaseUrl: env.DATABASE_URL, clickhouseUrl: env.CLICKHOUSE_URL }
  await migrateAll({ ...urls, only: { postgres: postgres!.slice(0, -1), clickhouse: inClickHouse!.slice(0, -1) } })
  await clickhouse.insert({ table: 'events', values: [{ project_id: 1, event: 'seen' }], format: 'JSONEachRow' })
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-check-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const settings = { ...env, NATS_URL: nats.url, MILLRACE_DATA_DIR: dataDir, MILLRACE_PORT: '1', MILLRACE_PIPELINE_PORT: '1', MILLRACE_API_URL: 'http://127.0.0.1:1' }
  t.same(await migrateAll(urls), [`postgres/${postgres!.at(-1)}`, `clickhouse/${inClickHouse!.at(-1)}`])

  await t.test('what a newer version left is refused: a migration of a run that was killed, a record without migrations', async (t) => {
    await sql`INSERT INTO schema_migration_checksums VALUES ('9000_of_a_later_version', '')`
    await t.rejects(migrateAll(urls), { message: /9000_of_a_later_version, which this version .* does not know: run the version that made it, or a newer one/ })
    await sql`DELETE FROM schema_migration_checksums WHERE name = '9000_of_a_later_version'`
    await sql`INSERT INTO schema_versions VALUES ('9.0.0', ${readVersion()}, '{}')`
    await t.rejects(migrateAll(urls), { message: `the database was migrated by Millrace 9.0.0 (commit unknown), and this is ${describeVersion()}: run 9.0.0, or restore a backup of before the upgrade` })
  })

  await t.test('a newer database is refused by every program, with both versions', async (t) => {
    await sql`INSERT INTO schema_versions VALUES ('9.1.0', '9.0.0', '{}', now() + interval '1 minute')`
    for (const tier of ['ingest', 'pipeline', 'api']) {
      const { code, output } = await runTier(tier, settings)
      t.equal(code, 1)
      t.match(output, `the database was migrated by Millrace 9.1.0 (commit unknown), which works with 9.0.0 and newer, and this is ${describeVersion()}`)
      t.notMatch(output, /^ +at /m, 'a sentence, no stack')
    }
    await sql`INSERT INTO schema_migration_checksums VALUES ('9000_of_a_later_version', '')`
    await t.rejects(migrateAll(urls), { code: 'MILLRACE_DATABASE_NEWER', message: /9\.1\.0.*run 9\.1\.0/ })
  })
})

async function runTier (
  tier: string, settings: Record<string, string>
): Promise<{ code: number | null, output: string }> {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const ports = { MILLRACE_PORT: '0', MILLRACE_PIPELINE_PORT: '0', MILLRACE_API_PORT: '0' }
  const child = spawn(process.execPath, [path.join(ROOT, tier, 'main.ts')], {
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...settings, ...ports },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let output = ''
  child.stderr.on('data', (chunk: Buffer) => { output += chunk.toString() })
  const [code] = await once(child, 'close') as [number | null]
  return { code, output }
}
