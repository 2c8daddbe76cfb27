/**
 * Kills the exporter between every two steps of a window while late events arrive, dead letters are replayed and
 * persons erased; then compares all that was exported with what is stored. `npm run check:export` kills it 200 times.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { verifyExport } from '../../cli/commands/verify-export.js'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { reviseExports } from '../../pipeline/persons/deletion/revise-exports.ts'
import {
  at, compareEvents, completeThrough, createExport, insertEvents, readManifests, startExports
} from '../../pipeline/windows/export/testing/export-fixture.ts'
import { createRandom } from '../support/random.ts'
import { createTestClickHouse, createTestPostgres } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'

const KILLS = Number(process.env['MILLRACE_TEST_KILLS'] ?? 6)
/** More than the steps of a round, so that each is hit. */
const STEPS = 25
const PROCESS = path.join(import.meta.dirname, '../../pipeline/windows/export/testing/export-process.ts')

t.test(`exporters killed ${KILLS} times leave each row in one file, and revisions without a gap`, async (t) => {
  const [{ sql, url: databaseUrl }, { client: clickhouse, url: clickhouseUrl }, root] = await Promise.all([
    createTestPostgres(t), createTestClickHouse(t), mkdtemp(path.join(tmpdir(), 'millrace-kills-'))
  ])
  t.teardown(async () => await rm(root, { recursive: true }))
  const random = createRandom(59)
  const { folder } = await createExport(sql)
  const clock = (minutes: number): string => new Date(minutes * 60_000).toISOString().slice(11, 16)
  let now = 6 * 60
  let killed = 0

  async function pickPersons (limit: number): Promise<string[]> {
    const rows = await queryRows<{ id: string }>(clickhouse, `
      SELECT DISTINCT person_id AS id FROM events ORDER BY cityHash64(id, {seed: UInt32}) LIMIT {limit: UInt8}`, { limit, seed: now })
    return rows.map(({ id }) => id)
  }

  async function live (): Promise<void> {
    now += 30
    // Received now; some happened a day ago, and some are replayed with a time of receipt that was exported.
    await insertEvents(clickhouse, 30, (index) => ({
      distinct_id: `user-${Math.floor(random() * 60)}`,
      received_at: at(clock(index < 3 ? 6 * 60 + Math.floor(random() * (now - 6 * 60)) : now)),
      ...random() < 0.2 && { timestamp: '2026-05-03 06:10:00' }
    }))
    if (random() < 0.4) {
      const persons = await pickPersons(1)
      const erase = `ALTER TABLE events DELETE WHERE person_id = '${persons.join()}' SETTINGS mutations_sync = 1`
      await clickhouse.command({ query: erase })
      await reviseExports(sql, 1, persons)
    }
    await completeThrough(clickhouse, clock(now + 1))
  }

  async function isDone (through: string): Promise<boolean> {
    const [row] = await sql<[{ done: Date, open: number }]>`SELECT min(done_through) AS done,
      (SELECT count(*)::int FROM export_windows WHERE written_at IS NULL) + (SELECT count(*)::int FROM export_erasures) AS open FROM window_tasks`
    return row.open === 0 && row.done.toISOString().slice(11, 16) >= through
  }

  for (let kill = 1; killed < KILLS; kill++) {
    // The last hour is for what comes after the kills.
    if (now < 22 * 60) await live()
    else await reviseExports(sql, 1, await pickPersons(2))
    const killAt = String(1 + kill % STEPS)
    const env = { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, FOLDER: root, KILL_AT: killAt }
    const child = spawn(process.execPath, [PROCESS], { env: { ...process.env, ...env }, stdio: 'inherit' })
    t.teardown(() => child.kill('SIGKILL'))
    let isGone = false
    const exited = once(child, 'exit').finally(() => { isGone = true })
    // One that takes fewer steps is ended when it has nothing left to do.
    const closed = clock(now + 1 - (now + 1) % 60)
    await waitFor(async () => isGone || await isDone(closed))
    child.kill('SIGTERM')
    const [, signal] = await exited
    if (signal === 'SIGKILL') killed++
    // The next one does not wait for the lease of one that is gone.
    await sql`UPDATE window_tasks SET leased_until = '-infinity', retry_at = now()`
  }
  const exports = startExports({ sql, clickhouse }, { folder: root, fileRows: 15, leaseMs: 30_000 })
  t.teardown(async () => await exports.stop())
  const waitUntilDone = async (through: string): Promise<unknown> => await waitFor(async () => await isDone(through))
  await completeThrough(clickhouse, '22:59')
  await waitUntilDone('22:00')
  // Few kills may have hit neither.
  await insertEvents(clickhouse, 1, () => ({ received_at: at('06:20') }))
  await completeThrough(clickhouse, '23:59')
  await waitUntilDone('23:00')
  await reviseExports(sql, 1, await pickPersons(1))
  await waitUntilDone('23:00')

  const files = path.join(root, folder)
  const [stored, exported] = await compareEvents(clickhouse, files, `received_at < '${at('23:00')}'`)
  t.ok(stored.length > 100, `${stored.length} rows`)
  t.same(exported, stored)
  t.equal(new Set(exported.map((row) => row.slice(0, 36))).size, exported.length)
  const manifests = await readManifests(files)
  t.ok(manifests.some(({ reason }) => reason === 'erasure') && manifests.some(({ reason }) => reason === 'late_rows'))
  t.same((await verifyExport(root)).problems, [])
  t.comment(`${killed} kills, ${manifests.length} manifests, ${manifests.filter(({ revision }) => revision > 0).length} revisions, ${exported.length} rows`)

  const changed = manifests.find(({ rows, file }) => rows > 0 && !manifests.some((other) => other.file !== file &&
    path.dirname(other.file) === path.dirname(file) && other.revision > 0))
  const name = path.join(path.dirname(changed?.file ?? ''), changed?.files[0]?.name ?? '')
  const bytes = await readFile(path.join(files, name))
  bytes[100] = (bytes[100] ?? 0) ^ 1
  await writeFile(path.join(files, name), bytes)
  t.same((await verifyExport(root)).problems, [`${path.join(folder, name)}: was changed`])
})
