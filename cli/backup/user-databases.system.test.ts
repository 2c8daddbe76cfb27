import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import type { Status } from '../../api/status/status-schema.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { chooseSettings, makeDataDir, runMain } from '../../embedded/supervisor/testing/run-main.ts'
import { type ClickHouse, connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { FILE_TIMEOUT_MS } from '../../test/test-pool.ts'
import { type Captured, runCaptured } from '../testing/run-captured.ts'

t.setTimeout(FILE_TIMEOUT_MS)

/** What users make beside Millrace's tables, as dbt, BI tools and people do. */
const MADE = [
  'CREATE DATABASE marts COMMENT \'what dbt makes\'', 'CREATE DATABASE `odd "n.ame/../x y`',
  'CREATE FUNCTION plus_one AS (x) -> x + 1', 'CREATE NAMED COLLECTION far AS url = \'http://127.0.0.1:1/\', password = \'secret\'',
  'CREATE TABLE marts.daily (day Date, event LowCardinality(String), n UInt64) ENGINE = SummingMergeTree PARTITION BY toYYYYMM(day) ORDER BY (day, event)',
  'CREATE MATERIALIZED VIEW marts.fill_daily TO marts.daily AS SELECT toDate(timestamp) AS day, event, 1 AS n FROM millrace.events',
  'CREATE MATERIALIZED VIEW marts.names ENGINE = MergeTree ORDER BY event AS SELECT event, distinct_id FROM millrace.events',
  'CREATE MATERIALIZED VIEW marts.hourly REFRESH EVERY 1 YEAR ENGINE = MergeTree ORDER BY n AS SELECT count() AS n FROM marts.daily',
  'CREATE DICTIONARY marts.labels (id UInt64, label String) PRIMARY KEY id SOURCE(CLICKHOUSE(DB \'millrace\' TABLE \'their labels\')) LAYOUT(FLAT()) LIFETIME(0)',
  'CREATE TABLE millrace.`their labels` (id UInt64, label String) ENGINE = MergeTree ORDER BY id',
  'INSERT INTO millrace.`their labels` VALUES (1, \'one\')',
  'CREATE TABLE `odd "n.ame/../x y`.`../../t\'able` (x Int32) ENGINE = ReplacingMergeTree ORDER BY x', 'INSERT INTO `odd "n.ame/../x y`.`../../t\'able` VALUES (3)',
  'CREATE TABLE default.d (x Int32) ENGINE = MergeTree ORDER BY x', 'INSERT INTO default.d VALUES (7)',
  // Made before what it reads, as its name comes first.
  'CREATE VIEW marts.b AS SELECT dictGet(\'marts.labels\', \'label\', toUInt64(1)) AS label, plus_one(1) AS two, n FROM marts.daily',
  'CREATE VIEW marts.a AS SELECT * FROM marts.b',
  'CREATE TABLE marts.gone (x Int32) ENGINE = MergeTree ORDER BY x', 'CREATE VIEW marts.broken AS SELECT x FROM marts.gone', 'DROP TABLE marts.gone SYNC',
  'CREATE TABLE marts.empty (x Int32) ENGINE = MergeTree ORDER BY x',
  // Without all of their rows in a backup.
  'CREATE TABLE marts.in_memory (x Int32) ENGINE = Memory', 'INSERT INTO marts.in_memory VALUES (1)',
  'CREATE TABLE marts.log (x Int32) ENGINE = Log', 'INSERT INTO marts.log VALUES (1)', 'CREATE TABLE marts.empty_log (x Int32) ENGINE = Log',
  'CREATE TABLE marts.rocks (x Int32, y Int32) ENGINE = EmbeddedRocksDB PRIMARY KEY x', 'INSERT INTO marts.rocks VALUES (1, 1)',
  'CREATE TABLE marts.far (x Int32) ENGINE = URL(\'http://u:secret@127.0.0.1:1/\', CSV)',
  'CREATE TABLE marts.kafka (x Int32) ENGINE = Kafka(\'127.0.0.1:1\', \'topic\', \'group\', \'CSV\')',
  'CREATE DATABASE pg ENGINE = PostgreSQL(\'127.0.0.1:1\', \'d\', \'u\', \'secret\')',
  'CREATE DATABASE scratch ENGINE = Memory', 'CREATE TABLE scratch.t (x Int32) ENGINE = Memory',
  'CREATE TABLE marts.detached (x Int32) ENGINE = MergeTree ORDER BY x', 'DETACH TABLE marts.detached PERMANENTLY',
  'CREATE TABLE marts.parted (x Int32) ENGINE = MergeTree ORDER BY x PARTITION BY x', 'INSERT INTO marts.parted VALUES (1), (2)',
  'ALTER TABLE marts.parted DETACH PARTITION 2'
]

const LEFT_OUT = [
  'database `pg` (PostgreSQL): its tables, which another system keeps', '`marts`.`far` (URL): its rows, which another system keeps',
  '`marts`.`in_memory` (Memory): its rows (only', '`marts`.`kafka` (Kafka): its rows, which', '`marts`.`log` (Log): its rows (only',
  '`marts`.`rocks` (EmbeddedRocksDB): its rows', '`scratch`.`t` (Memory): exists in memory only', '`marts`.`detached`: detached', '`marts`.`parted`: 1 detached parts',
  'Postgres: database theirs', 'Postgres: reports.weekly'
]

/** Each with what it must answer before the backup and after the restore. */
const QUESTIONS = [
  'SELECT event, sum(n) AS n FROM marts.daily GROUP BY event ORDER BY event', 'SELECT * FROM marts.names ORDER BY event, distinct_id',
  'SELECT * FROM marts.a ORDER BY n', 'SELECT label FROM millrace.`their labels`', 'SELECT x FROM `odd "n.ame/../x y`.`../../t\'able`',
  'SELECT x FROM default.d', 'SELECT count() AS n FROM marts.hourly', 'SELECT name FROM system.named_collections', 'SELECT count() AS n FROM marts.empty_log',
  "SELECT name, engine, comment FROM system.databases WHERE name NOT IN ('system') ORDER BY name",
  'SELECT database, name, engine FROM system.tables WHERE database IN (\'marts\', \'default\', \'millrace\', \'odd "n.ame/../x y\') AND name NOT LIKE \'.inner%\' ORDER BY ALL'
]

t.test('a backup has what users made in the databases, or names it', async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-test-users-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const [dataDir, restored] = [await makeDataDir(t), path.join(root, 'restored')]
  const scheduled = { MILLRACE_BACKUP_FOLDER: path.join(root, 'backups') }
  const main = runMain(t, await chooseSettings(dataDir))
  await main.ready()
  const stack = await open(t, dataDir)
  for (const query of MADE) await stack.clickhouse.command({ query })
  await stack.sql.unsafe('CREATE DATABASE theirs')
  for (const text of ['CREATE SCHEMA reports', 'CREATE TABLE reports.weekly (n int)', 'CREATE TABLE "their/../t""able" (n serial)', 'INSERT INTO "their/../t""able" VALUES (1)']) {
    await stack.sql.unsafe(text)
  }
  await stack.send('first', 'second')
  // Each view has its rows at a moment of its own.
  for (const table of ['marts.names', 'marts.daily']) await waitFor(async () => (await stack.ask(`SELECT * FROM ${table}`)).length === 2)
  const before = await answer(stack.clickhouse)
  t.match(before['SELECT * FROM marts.a ORDER BY n'], [{ label: 'one', two: 2 }, {}], 'the rows exist before the backup')

  const made = await cli(dataDir, ['backups', 'run', '--json'], scheduled)
  t.equal(made.code, 0, made.err)
  const { folder, left_out: leftOut } = JSON.parse(made.out) as { folder: string, left_out: string[] }
  await t.test('what it leaves out is in its output, in the list and in the status', async (t) => {
    t.same(leftOut.filter((what) => !LEFT_OUT.some((known) => what.startsWith(known))), [], 'nothing else')
    for (const known of LEFT_OUT) {
      t.ok(leftOut.some((what) => what.startsWith(known)), known)
      t.ok(made.err.includes(`left out: ${known}`), known)
    }
    const status = await waitFor(async () => {
      const found = await readStatus(dataDir)
      return found.backup.lastWarning === null ? undefined : found
    })
    t.match(status.backup.lastWarning, /it leaves out 8: .*`marts`\.`in_memory`.*reports\.weekly/)
    t.notMatch(status.backup.lastWarning, /kafka/, 'nothing of it is lost')
    t.match((await cli(dataDir, ['status', '--once'])).out, /^last backup +waiting .*`marts`/m)
    t.match(JSON.parse((await cli(dataDir, ['backups', 'list', '--json'], scheduled)).out), [{ left_out: leftOut }])
  })
  await t.test('a later one shares the parts of their tables', async (t) => {
    const later = await cli(dataDir, ['backup', path.join(root, 'later'), '--base', folder, '--json'])
    t.equal(later.code, 0, later.err)
  })
  await stack.close()
  main.child.kill('SIGTERM')
  await main.exited

  const filled = await cli(restored, ['restore', folder, '--json'])
  t.equal(filled.code, 0, filled.err)
  await runMain(t, await chooseSettings(restored)).ready()
  const again = await open(t, restored)
  t.same(await answer(again.clickhouse), before)
  const said = JSON.parse(filled.out) as { left_out: string[] }
  t.same(said.left_out, [...leftOut, 'Postgres: table their/../t"able, which Millrace does not create; its rows are in postgres/their%2F..%2Ft%22able.copy.zst of the backup'])
  for (const what of said.left_out) t.ok(filled.err.includes(`left out: ${what}`), what)
  const { backup } = await waitFor(async () => {
    const found = await readStatus(restored)
    return found.backup.lastWarning === null ? undefined : found
  })
  t.match(backup.lastWarning, /the restore of this backup left out 9: .*`marts`\.`log`/)

  await t.test('their views go on, and what did not work says why', async (t) => {
    await again.send('third')
    await waitFor(async () => (await again.ask('SELECT * FROM marts.names')).length === 3)
    t.equal((await again.ask('SELECT sum(n) AS n FROM marts.daily')).length, 1)
    await t.rejects(again.ask('SELECT * FROM marts.broken'), { message: /marts\.gone/ })
    await again.clickhouse.command({ query: 'INSERT INTO marts.empty VALUES (1)' })
    t.match((await again.ask("SELECT create_table_query AS q FROM system.tables WHERE name = 'far'")), [{ q: /u:\[HIDDEN\]@127/ }])
    t.match(await readFile(path.join(restored, 'clickhouse', 'metadata', 'marts', 'far.sql'), 'utf8'), /u:secret@/, 'with its password')
  })

  await t.test('what cannot be created is named, and Millrace is restored', async (t) => {
    // As by a version of ClickHouse that does not know an engine any more.
    const manifest = path.join(folder, 'manifest.json')
    const text = (await readFile(manifest, 'utf8')).replace(/("sql": "ATTACH TABLE `marts`.`daily` UUID [^"]*ENGINE = )SummingMergeTree/, '$1NoSuchTree')
    t.match(text, /NoSuchTree/)
    await writeFile(manifest, text)
    const partly = await cli(path.join(root, 'partly'), ['restore', folder, '--json'])
    t.equal(partly.code, 0, partly.err)
    t.match(JSON.parse(partly.out), { events: 2 })
    t.match(partly.err, /left out: `marts`\.`daily` \(SummingMergeTree\): could not be created \(.*NoSuchTree/)
  })
})

interface Opened {
  clickhouse: ClickHouse
  sql: ReturnType<typeof connectPostgres>
  ask: (query: string) => Promise<Record<string, unknown>[]>
  send: (...events: string[]) => Promise<void>
  close: () => Promise<void>
}

async function open (t: Test, dataDir: string): Promise<Opened> {
  const { clickhouseUrl, databaseUrl, baseUrl } = await readAddresses(dataDir)
  const { projectApiKey } = JSON.parse(await readFile(path.join(dataDir, 'credentials.json'), 'utf8')) as { projectApiKey: string }
  const clickhouse = connectClickHouse({ url: clickhouseUrl })
  const sql = connectPostgres({ url: databaseUrl, max: 1 })
  const close = async (): Promise<void> => {
    await clickhouse.close()
    await sql.end({ timeout: 1 })
  }
  t.teardown(close)
  return {
    clickhouse,
    sql,
    close,
    ask: async (query) => await queryRows(clickhouse, query),
    async send (...events) {
      const batch = events.map((event) => ({ event, distinct_id: 'somebody' }))
      const response = await fetch(`${baseUrl}/batch/`, {
        method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: projectApiKey, batch })
      })
      t.equal(response.status, 200)
    }
  }
}

async function answer (clickhouse: ClickHouse): Promise<Record<string, unknown>> {
  const answers: Record<string, unknown> = {}
  for (const question of QUESTIONS) answers[question] = await queryRows(clickhouse, question)
  return answers
}

async function cli (dataDir: string, args: string[], env: Record<string, string> = {}): Promise<Captured> {
  await mkdir(path.dirname(dataDir), { recursive: true })
  return await runCaptured(args, { PATH: process.env.PATH, HOME: process.env.HOME, MILLRACE_DATA_DIR: dataDir, ...env })
}

async function readStatus (dataDir: string): Promise<Status> {
  return JSON.parse((await cli(dataDir, ['status', '--json'])).out) as Status
}
