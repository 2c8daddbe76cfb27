import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { readManifest } from '../../cli/backup/backup-folder.ts'
import { loadBackup, refuseUnknownSchema } from '../../cli/backup/load-backup.ts'
import { createCliContext, type CliWorld } from '../../cli/cli-context.ts'
import { runCli } from '../../cli/run-cli.ts'
import { chooseSettings, runMain } from '../../embedded/supervisor/testing/run-main.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { migrateAll } from '../../schema/migrate/migrate-all.ts'
import { startTestNats } from '../support/test-processes.ts'
import { waitFor } from '../support/wait-for.ts'
import { createEmptyDatabases } from './empty-databases.ts'
import { PLANTED_EVENTS, PLANTED_FLAG, PLANTED_KEYS, PLANTED_TAGS } from './planted-data.ts'

const KEPT = path.join(import.meta.dirname, 'backups')

/** The only one whose manifest has books: others are older. */
const WITH_BOOKS = '1c7104e'

t.setTimeout(170_000)

const folders = (await readdir(KEPT, { withFileTypes: true }))
  .filter((entry) => entry.isDirectory()).map(({ name }) => name).sort()
t.ok(folders.length >= 2)

for (const folder of folders) {
  t.test(`the backup of ${folder} is loaded into this version, and migrated`, async (t) => {
    const { sql, clickhouse, env } = await createEmptyDatabases(t)
    const nats = await startTestNats(t)
    const manifest = await readManifest(path.join(KEPT, folder))
    await refuseUnknownSchema(manifest)
    const silent = { write: () => {} }
    const context = createCliContext({ env: {}, stdout: silent, stderr: silent, now: Date.now })

    const urls = { natsUrl: nats.url, databaseUrl: env.DATABASE_URL, clickhouseUrl: env.CLICKHOUSE_URL }
    const migrations = await loadBackup(context, urls, { folder: path.join(KEPT, folder), manifest })

    t.ok(migrations.includes('clickhouse/0182_add_distinct_id_index_of_events'), 'later migrations were applied')
    const known = [...manifest.postgres.migrations, ...manifest.clickhouse.migrations]
    t.same(migrations.filter((name) => known.includes(name.split('/')[1]!)), [], 'and only those')
    t.same(await migrateAll(urls), [], 'nothing is left to migrate')
    await hasWhatWasPlanted(t, sql, clickhouse)
  })
}

t.test('the books of an earlier version are compared after the migrations', async (t) => {
  const folder = path.join(KEPT, WITH_BOOKS)
  const manifest = await readManifest(folder)
  t.match(manifest.books, [{ project: 1, events: PLANTED_EVENTS.length }])
  const books = manifest.books!.map((day) => ({ ...day, checksum: '1' }))
  const { env } = await createEmptyDatabases(t)
  const nats = await startTestNats(t)
  const silent = { write: () => {} }
  const context = createCliContext({ env: {}, stdout: silent, stderr: silent, now: Date.now })
  const urls = { natsUrl: nats.url, databaseUrl: env.DATABASE_URL, clickhouseUrl: env.CLICKHOUSE_URL }

  await t.rejects(loadBackup(context, urls, { folder, manifest: { ...manifest, books } }), {
    code: 'MILLRACE_RESTORE_FAILED', message: /project 1 has 8 events .* 8 in the books of the backup, but not the same ones/
  })
})

t.test('npm start goes on with a restored backup of an earlier version', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-old-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const restored = await cli(['restore', path.join(KEPT, folders[0]!), '--json'], dataDir)
  t.equal(restored.code, 0, restored.err)
  t.match(JSON.parse(restored.out), { events: PLANTED_EVENTS.length, dead_letters: 1 })
  const main = runMain(t, await chooseSettings(dataDir))
  await main.ready()
  const { baseUrl, clickhouseUrl, databaseUrl } = await readAddresses(dataDir)
  const clickhouse = connectClickHouse({ url: clickhouseUrl })
  const sql = connectPostgres({ url: databaseUrl, max: 1 })
  t.teardown(async () => {
    await clickhouse.close()
    await sql.end({ timeout: 1 })
  })

  await hasWhatWasPlanted(t, sql, clickhouse)
  const letters = await cli(['dead-letters', 'list', '--json'], dataDir)
  t.match(JSON.parse(letters.out), [{ stage: 'persons', reason: 'properties_too_large' }])
  await worksOn(t, baseUrl, clickhouse)
})

/** Rows, views, persons, groups, flags, definitions, rules: as they were when the backup was made. */
async function hasWhatWasPlanted (t: Test, sql: Sql, clickhouse: ClickHouse): Promise<void> {
  const rows = await select(clickhouse, `SELECT toString(uuid) AS uuid, event, distinct_id,
    formatDateTime(timestamp, '%FT%T.000Z', 'UTC') AS timestamp FROM events ORDER BY uuid`)
  t.same(rows, PLANTED_EVENTS.map(({ properties, ...sent }) => sent))
  t.same(await select(clickhouse, `SELECT JSONExtractRaw(properties, 'amount') AS amount, p_plan FROM events
    WHERE event = 'order paid' ORDER BY uuid`),
  [{ amount: '12.5', p_plan: 'free' }, { amount: '9007199254740993', p_plan: 'pro' }, { amount: '-1', p_plan: 'free' }])
  t.match(await select(clickhouse, "SELECT toUInt32(sum(volume)) AS n FROM event_volumes WHERE event = 'order paid'"), [{ n: 3 }], 'views')
  t.match(await select(clickhouse, `SELECT toUInt32(uniq(person_id)) AS n FROM events_with_person
    WHERE distinct_id IN ('jo', 'anonymous-1')`), [{ n: 1 }], 'events of before $identify belong to the person')

  t.same(await sql`SELECT d.distinct_id, p.properties->>'plan' AS plan FROM person_distinct_ids AS d
    JOIN persons AS p ON p.project_id = d.project_id AND p.id = d.person_id WHERE d.project_id = 1 ORDER BY 1`, [
    { distinct_id: 'anonymous-1', plan: 'pro' }, { distinct_id: 'jo', plan: 'pro' }, { distinct_id: 'large', plan: null },
    { distinct_id: 'sam', plan: 'team' }, { distinct_id: 'samuel', plan: 'team' }
  ])
  t.match(await sql`SELECT group_key, properties FROM groups`, [{ group_key: 'acme', properties: { seats: 5 } }])
  t.match(await sql`SELECT key, filters FROM feature_flags`, [{ key: PLANTED_FLAG.key, filters: PLANTED_FLAG.filters }])
  t.same(await sql`SELECT tags FROM event_definitions WHERE name = 'order paid'`, [{ tags: PLANTED_TAGS }])
  t.match(await sql`SELECT p.name, r.days FROM projects AS p LEFT JOIN retention AS r ON r.project_id = p.id ORDER BY p.id`,
    [{ days: null }, { name: 'Second', days: 4000 }])
}

async function select<T> (clickhouse: ClickHouse, query: string): Promise<T[]> {
  return await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<T>()
}

/** New events join the restored ones, one that is sent again is known, and flags are evaluated for restored persons. */
async function worksOn (t: Test, baseUrl: string, clickhouse: ClickHouse): Promise<void> {
  const post = async (route: string, body: object): Promise<unknown> => {
    const response = await fetch(new URL(route, baseUrl), {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: PLANTED_KEYS.project, ...body })
    })
    t.equal(response.status, 200)
    return await response.json()
  }
  for (const [distinctId, enabled] of [['jo', true], ['sam', false]] as const) {
    t.match(await post('/flags/?v=2', { distinct_id: distinctId }), { flags: { [PLANTED_FLAG.key]: { enabled } } })
  }
  const [, , , again] = PLANTED_EVENTS
  await post('/batch/', { batch: [{ ...again, properties: { amount: -1, plan: 'free', text: 'Zürich ✓ "quoted"' } }, { event: 'later', distinct_id: 'jo' }] })
  await waitFor(async () => (await select(clickhouse, "SELECT 1 FROM events WHERE event = 'later'")).length === 1, { timeoutMs: 30_000 })
  t.equal((await select(clickhouse, 'SELECT 1 FROM events')).length, PLANTED_EVENTS.length + 1, 'an event sent again is known')
}

async function cli (args: string[], dataDir: string): Promise<{ code: number, out: string, err: string }> {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, MILLRACE_DATA_DIR: dataDir },
    stdout: { write: (text) => { out += text } },
    stderr: { write: (text: string) => { err += text } } as CliWorld['stderr'],
    now: Date.now
  })
  return { code, out, err }
}
