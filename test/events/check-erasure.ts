/**
 * Erases a tenth of the people at random moments under load while processes are killed; then brings their data back in
 * every way there is, and searches for planted marks in all rows and in all bytes of the data directory.
 * `npm run check:erasure`; MILLRACE_TEST_PERSONS (1,000) and MILLRACE_TEST_KILLS (8) make it smaller or larger.
 */
import { randomUUID } from 'node:crypto'
import { cp, glob, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { runCaptured } from '../../cli/testing/run-captured.ts'
import { type Credentials, readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { chooseSettings, runMain } from '../../embedded/supervisor/testing/run-main.ts'
import { type ClickHouse, connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { personsSubject } from '../../schema/wire/streams.ts'
import { createRandom, pickOne, shuffle } from '../support/random.ts'
import { waitFor } from '../support/wait-for.ts'

const PERSONS = Number(process.env['MILLRACE_TEST_PERSONS'] ?? 1000)
const KILLS = Number(process.env['MILLRACE_TEST_KILLS'] ?? 8)
const ERASED = PERSONS / 10
/** In every id and value of the people who are erased. */
const MARK = 'planted-mark-7d1e'
const LAST_YEAR = Date.now() - 300 * 86_400_000
const random = createRandom(62)

interface Installation {
  dataDir: string
  url: string
  keys: Credentials
  sql: Sql
  clickhouse: ClickHouse
  natsUrl: string
}

await t.test(`${ERASED} of ${PERSONS} people erased under load with ${KILLS} kills stay erased`, async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-check-erasure-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const settings = await chooseSettings(path.join(root, 'data'))
  let main = runMain(t, settings)
  await main.ready()
  let here = await connect(settings)
  await keepNoOldParts(here.clickhouse)
  const env = { PATH: process.env.PATH, ...settings }
  const marked = Array.from({ length: ERASED }, (_, i) => `${MARK}-${i}`)
  const others = Array.from({ length: PERSONS - ERASED }, (_, i) => `other-${i}`)
  const history = [...marked, ...others].flatMap((id) => eventsOf(id, LAST_YEAR))
  await sendAll(here, history, { historical_migration: true })
  for (const id of marked.slice(0, 5)) await plantLetter(here, id)
  await waitFor(async () => await countEvents(here) === history.length, { timeoutMs: 120_000 })
  const monday = path.join(root, 'monday')
  const made = await runCaptured(['backup', monday, '--wait', '60'], env)
  t.equal(made.code, 0, made.err)

  const spool = path.join(root, 'old-spool')
  const late = marked.flatMap((id) => eventsOf(id, Date.now() - 60_000))
  await withNatsPaused(here, async () => {
    await sendAll(here, late)
    await cp(path.join(here.dataDir, 'spool'), spool, { recursive: true })
  })
  t.ok((await readdir(spool, { recursive: true })).length > 1, 'there is an old spool')

  const load = startLoad(here, others)
  const killing = killAtRandom(here, t)
  const chunks = Array.from({ length: Math.ceil(ERASED / 10) }, (_, i) => marked.slice(10 * i, 10 * i + 10))
  for (const ids of shuffle(chunks, random)) {
    await delay(random() * 1500)
    await retry(async () => await call(here, 'POST', '/erasures/', { distinct_ids: ids }))
  }
  await killing
  const accepted = await load.stop()
  const isSwept = async (): Promise<boolean> =>
    (await here.sql`SELECT 1 FROM person_deletions WHERE swept_at IS NULL`).length === 0
  await waitFor(isSwept)

  const again = history.map((event) => ({ ...event, uuid: randomUUID() }))
  await retry(async () => await sendAll(here, again, { historical_migration: true }))
  for (const id of marked.slice(0, 5)) await plantLetter(here, id)
  await call(here, 'POST', '/dead_letters/replay/', {})
  await stop(here, main)
  await cp(spool, path.join(here.dataDir, 'spool'), { recursive: true })
  main = runMain(t, settings)
  await main.ready()
  here = await connect(settings)
  const expected = others.length * 2 * 3 + accepted
  const isGone = async (): Promise<boolean> =>
    await countEvents(here) === expected && (await findRows(here)).length === 0
  await waitFor(isGone, { timeoutMs: 240_000, everyMs: 1000 })
    .catch(async () => { t.fail(`${await countEvents(here)} events of ${expected}; marks in ${(await findRows(here)).join(', ')}`) })
  t.same(await findRows(here), [], 'rows')
  const balance = async (): Promise<number> => {
    const [row] = await queryRows<{ n: string }>(here.clickhouse, 'SELECT sum(balance) AS n FROM ledger')
    return Number(row?.n)
  }
  await waitFor(async () => await balance() === expected, { timeoutMs: 30_000 }).catch(async () => t.fail(`books say ${await balance()}, ${expected} are stored`))
  // Each backup leaves the records of erasures beside it.
  const later = await runCaptured(['backup', path.join(root, 'tuesday'), '--wait', '60'], env)
  t.equal(later.code, 0, later.err)
  const relations = await compact(here)
  await stop(here, main)
  t.same(await findBytes(here.dataDir, relations), [], 'bytes of the data directory')

  const restored = await chooseSettings(path.join(root, 'restored'))
  const filled = await runCaptured(['restore', monday, '--json'], { PATH: process.env.PATH, MILLRACE_DATA_DIR: path.join(root, 'restored') })
  t.equal(filled.code, 0, filled.err)
  t.ok(JSON.parse(filled.out).erased_again >= chunks.length)
  main = runMain(t, restored)
  await main.ready()
  here = await connect(restored)
  t.equal(await countEvents(here), others.length * 3)
  t.same(await findRows(here), [], 'rows of the restored backup')
  const restoredRelations = await compact(here)
  await stop(here, main)
  t.same(await findBytes(here.dataDir, restoredRelations), [], 'bytes of the restored data directory')
})

async function connect (settings: Record<string, string>): Promise<Installation> {
  const dataDir = settings['MILLRACE_DATA_DIR'] ?? ''
  const { baseUrl: url, clickhouseUrl, databaseUrl, natsUrl } = await readAddresses(dataDir)
  const keys: Credentials = JSON.parse(await readFile(path.join(dataDir, 'credentials.json'), 'utf8'))
  const sql = connectPostgres({ url: databaseUrl, max: 2 })
  return { dataDir, url, keys, natsUrl, sql, clickhouse: connectClickHouse({ url: clickhouseUrl }) }
}

async function stop ({ sql, clickhouse }: Installation, main: ReturnType<typeof runMain>): Promise<void> {
  await sql.end({ timeout: 1 })
  await clickhouse.close()
  main.child.kill('SIGTERM')
  await main.exited
}

function eventsOf (id: string, at: number): Record<string, unknown>[] {
  const properties = { note: `of ${id}`, $set: { email: `${id}@example.com` }, $groups: { person: id } }
  const common = { timestamp: new Date(at).toISOString(), properties }
  return [
    { ...common, uuid: randomUUID(), event: 'visit', distinct_id: `${id}-device` },
    { ...common, uuid: randomUUID(), event: '$identify', distinct_id: id, properties: { ...properties, $anon_distinct_id: `${id}-device` } },
    { ...common, uuid: randomUUID(), event: 'paid', distinct_id: id }
  ]
}

async function sendAll (here: Installation, events: readonly object[], more: object = {}): Promise<void> {
  for (let i = 0; i < events.length; i += 200) await post(here, events.slice(i, i + 200), more)
}

async function post ({ url, keys }: Installation, batch: readonly object[], more: object = {}): Promise<void> {
  const response = await fetch(`${url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: keys.projectApiKey, batch, ...more })
  })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  await response.body?.cancel()
}

async function call ({ url, keys }: Installation, method: string, route: string, body: object): Promise<unknown> {
  const response = await fetch(`${url}/api/projects/1${route}`, {
    method, headers: { 'content-type': 'application/json', authorization: `Bearer ${keys.personalApiKey}` }, body: JSON.stringify(body)
  })
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  return await response.json()
}

/** As an SDK or a person does it; what was recorded before the answer got lost is erased twice. */
async function retry (work: () => Promise<unknown>): Promise<void> {
  await waitFor(async () => await work().then(() => true), { timeoutMs: 120_000, everyMs: 500 })
}

/** Sends events of people who stay, until stopped. @returns how many were accepted. */
function startLoad (here: Installation, ids: readonly string[]): { stop: () => Promise<number> } {
  const stopping = new AbortController()
  let accepted = 0
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const batch = Array.from({ length: 20 }, () =>
        ({ uuid: randomUUID(), event: 'load', distinct_id: pickOne(ids, random), properties: {} }))
      await retry(async () => await post(here, batch))
      accepted += batch.length
      await delay(50)
    }
  })()
  return {
    async stop () {
      stopping.abort()
      await running
      return accepted
    }
  }
}

async function killAtRandom ({ dataDir }: Installation, t: { comment: (text: string) => void }): Promise<void> {
  for (let kill = 0; kill < KILLS; kill++) {
    await delay(1000 + random() * 3000)
    const victim = pickOne(await readProcesses(dataDir), random)
    t.comment(`kill ${victim.name}`)
    // It may have ended since it was read.
    try { process.kill(-victim.pid, 'SIGKILL') } catch {}
  }
}

async function readProcesses (dataDir: string): Promise<{ name: string, pid: number }[]> {
  return JSON.parse(await readFile(path.join(dataDir, 'processes.json'), 'utf8'))
}

async function withNatsPaused ({ dataDir }: Installation, work: () => Promise<void>): Promise<void> {
  const nats = (await readProcesses(dataDir)).find(({ name }) => name.includes('nats'))
  if (nats === undefined) throw new Error('nats-server is not recorded')
  process.kill(nats.pid, 'SIGSTOP')
  try {
    await work()
  } finally {
    process.kill(nats.pid, 'SIGCONT')
  }
}

/** A letter that somebody copied before, and publishes again. */
async function plantLetter ({ natsUrl }: Installation, id: string): Promise<void> {
  const connection = await connectNats({ url: natsUrl, name: 'check', logger: createLogger({ component: 'check', level: 'silent' }) })
  const update = { kind: 'person', projectId: 1, uuid: randomUUID(), timestamp: Date.now() - 3_600_000, distinctId: id, set: { note: `letter of ${id}` } }
  await publishDeadLetter(connection, {
    id: `check:${id}:${update.uuid}`, stage: 'persons', reason: 'not_applicable', error: 'planted', subject: personsSubject(1), sequence: 1, project: 1,
    uuid: update.uuid, headers: {}, body: Buffer.from(JSON.stringify([update]))
  })
  await connection.close()
}

async function countEvents ({ clickhouse }: Installation): Promise<number> {
  return Number((await queryRows<{ n: string }>(clickhouse, 'SELECT count() AS n FROM events FINAL'))[0]?.n)
}

/** Tables with rows that have the mark. */
async function findRows ({ sql, clickhouse }: Installation): Promise<string[]> {
  const found: string[] = []
  for (const { name } of await queryRows<{ name: string }>(clickhouse, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine NOT LIKE '%View' ORDER BY name")) {
    const rows = await queryRows(clickhouse, `SELECT 1 FROM ${name} WHERE position(toString(tuple(*)), '${MARK}') > 0 LIMIT 1 SETTINGS final = 0`)
    if (rows.length > 0) found.push(`ClickHouse ${name}`)
  }
  for (const { name } of await sql<{ name: string }[]>`SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname`) {
    const rows = await sql`SELECT 1 FROM ${sql.unsafe(`"${name}"`)} AS each WHERE position(${MARK} IN each::text) > 0 LIMIT 1`
    if (rows.length > 0) found.push(`Postgres ${name}`)
  }
  return found
}

async function listTables (clickhouse: ClickHouse): Promise<string[]> {
  const tables = await queryRows<{ name: string }>(clickhouse, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'")
  return tables.map(({ name }) => name)
}

async function keepNoOldParts (clickhouse: ClickHouse): Promise<void> {
  for (const name of await listTables(clickhouse)) await clickhouse.command({ query: `ALTER TABLE ${name} MODIFY SETTING old_parts_lifetime = 1` })
}

/** What an operator does who wants no byte to stay. @returns the relations of Postgres by the paths of their files. */
async function compact ({ sql, clickhouse }: Installation): Promise<Map<string, string>> {
  await keepNoOldParts(clickhouse)
  for (const name of await listTables(clickhouse)) await clickhouse.command({ query: `OPTIMIZE TABLE ${name} FINAL` })
  // Later ones come of merges that go on: the watermark is stored each second.
  const [{ now }] = await queryRows<{ now: string }>(clickhouse, 'SELECT toString(now()) AS now') as [{ now: string }]
  const isGone = async (): Promise<boolean> =>
    (await queryRows(clickhouse, 'SELECT 1 FROM system.parts WHERE database = currentDatabase() AND NOT active AND remove_time <= {now:DateTime} LIMIT 1', { now })).length === 0
  // Of parts that replaced one another ClickHouse removes one in a round, and rounds are up to ten minutes apart.
  await waitFor(isGone, { timeoutMs: 1_500_000, everyMs: 1000 })
  // Frequent values of each column: ANALYZE keeps those of a table that is empty now, and VACUUM FULL rewrites them.
  for (const statement of ['DELETE FROM pg_statistic', 'VACUUM FULL', 'ANALYZE']) await sql.unsafe(statement)
  // Files of the log are used again, with what they had.
  await sql.unsafe('ALTER SYSTEM SET wal_recycle = off')
  await sql.unsafe('SELECT pg_reload_conf()')
  for (let round = 0; round < 2; round++) {
    await sql.unsafe('SELECT pg_switch_wal()')
    await sql.unsafe('CHECKPOINT')
  }
  const relations = await sql<{ path: string, name: string }[]>`SELECT pg_relation_filepath(oid) AS path, relname AS name FROM pg_class WHERE pg_relation_filenode(oid) IS NOT NULL`
  return new Map(relations.map(({ path, name }) => [path, name]))
}

async function findBytes (folder: string, relations: ReadonlyMap<string, string>): Promise<string[]> {
  const found: string[] = []
  for await (const entry of glob('**/*', { cwd: folder, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (entry.isFile() && (await readFile(file)).includes(MARK)) found.push(`${path.relative(folder, file)} ${relations.get(path.relative(path.join(folder, 'postgres', 'cluster'), file)) ?? ''}`)
  }
  return found.sort()
}
