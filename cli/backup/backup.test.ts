import { appendFile, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { runMain, chooseSettings } from '../../embedded/supervisor/testing/run-main.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { startStack, type Stack } from '../../test/start-stack.ts'
import type { CliWorld } from '../cli-context.ts'
import { runCli } from '../run-cli.ts'
import { verifyBackupFiles } from './backup-files.ts'
import { readManifest } from './backup-folder.ts'

const PROMOTED = `SELECT name, type, default_expression, comment, compression_codec AS codec
  FROM system.columns WHERE database = currentDatabase() AND table = 'events' AND name = 'p_plan'`

t.test('a backup under load holds every event acknowledged before it, once, and agrees with itself', async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-test-backup-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const backup = path.join(root, 'backup')
  const stack = await startStack()
  t.teardown(async () => { await stack.stop() })
  await plantDeadLetter(stack)
  await stack.clickhouse.command({
    query: 'ALTER TABLE events ADD COLUMN p_plan String DEFAULT JSONExtractString(properties, \'plan\') COMMENT \'Property "plan"\' CODEC(ZSTD(1))'
  })
  const promoted = await stack.select(PROMOTED)
  const load = startLoad(stack)
  await waitFor(() => load.acknowledged.size > 1500)

  const before = new Set(load.acknowledged)
  const made = await cli(['backup', backup, '--json', '--wait', '60'], stack.dataDir)
  t.equal(made.code, 0, made.err)
  const { events } = JSON.parse(made.out) as { events: number }
  t.ok(load.acknowledged.size > before.size, 'events were accepted all the time')
  await load.stop()
  t.not((await cli(['backup', backup], stack.dataDir)).code, 0, 'a folder that holds something is refused')
  await t.test('a later one shares the parts that did not change', async (t) => {
    await sharesParts(t, { stack, root })
  })
  const intoRunning = await cli(['restore', backup], stack.dataDir)
  t.equal(intoRunning.code, 1, intoRunning.err)
  t.match(intoRunning.err, /not empty: stop Millrace/)
  const flag = await stack.sql`SELECT key FROM feature_flags`
  await stack.stop()
  await refusesWhatIsNotWhole(t, { root, backup })

  const restored = path.join(root, 'data')
  const filled = await cli(['restore', backup], restored, { isTTY: true })
  t.equal(filled.code, 0, filled.err)
  t.match(filled.err, /restoring +\[#*\.*\] \d+ %/, 'a bar')
  const main = runMain(t, await chooseSettings(restored))
  await main.ready()
  const addresses = await readAddresses(restored)
  const clickhouse = connectClickHouse({ url: addresses.clickhouseUrl })
  const sql = connectPostgres({ url: addresses.databaseUrl, max: 1 })
  t.teardown(async () => {
    await clickhouse.close()
    await sql.end({ timeout: 1 })
  })
  const select = async <T>(query: string): Promise<T[]> =>
    await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<T>()

  const stored = (await select<{ uuid: string }>('SELECT toString(uuid) AS uuid FROM events')).map(({ uuid }) => uuid)
  t.equal(stored.length, events)
  t.equal(new Set(stored).size, stored.length, 'no event is there twice')
  const found = new Set(stored)
  t.same([...before].filter((uuid) => !found.has(uuid)), [], 'none is missing')
  t.same(
    await select('SELECT event, sum(volume) AS n FROM event_volumes GROUP BY event ORDER BY event'),
    await select('SELECT event, count() AS n FROM events GROUP BY event ORDER BY event'),
    'the views agree with the events')
  t.same(await select(PROMOTED), promoted, 'a promoted column with its comment and codec')
  t.match(promoted, [{ comment: /^Property "plan"/, codec: /ZSTD/ }])
  t.same(await sql`SELECT key FROM feature_flags`, flag)
  const letters = await cli(['dead-letters', 'list', '--json'], restored)
  t.match(JSON.parse(letters.out), [{ stage: 'writer', reason: 'refused', error: 'of the test' }])
  await waitFor(async () => {
    // Read anew each time: the outbox that the snapshot held is copied while this waits.
    const [copies] = await select<{ n: string }>('SELECT count() AS n FROM persons FINAL')
    const [persons] = await sql<[{ n: number }]>`SELECT count(*)::int AS n FROM persons`
    return persons.n === Number(copies?.n) && persons.n > 0
  })
  await waitFor(async () => {
    const volumes = await sql<{ n: number }[]>`SELECT volume_30_day AS n FROM event_definitions`
    return volumes.reduce((sum, { n }) => sum + n, 0) === stored.length
  })

  const again = await fetch(`${addresses.baseUrl}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: stack.projectApiKey, batch: [makeEvent([...before][0]!), makeEvent(crypto.randomUUID())]
    })
  })
  t.equal(again.status, 200)
  await waitFor(async () => (await select('SELECT uuid FROM events')).length > stored.length)
  t.equal((await select('SELECT uuid FROM events')).length, stored.length + 1, 'an event sent again is known')
})

async function sharesParts (t: Test, { stack, root }: { stack: Stack, root: string }): Promise<void> {
  const [base, later] = [path.join(root, 'base'), path.join(root, 'later')]
  await stack.clickhouse.command({ query: 'OPTIMIZE TABLE events FINAL' })
  await stack.clickhouse.command({ query: 'SYSTEM STOP MERGES events' })
  t.match(await cli(['backup', base], stack.dataDir), { code: 0, err: String })
  const made = await cli(['backup', later, '--base', base, '--json'], stack.dataDir)
  await stack.clickhouse.command({ query: 'SYSTEM START MERGES events' })
  const sizes = JSON.parse(made.out) as { bytes: number, shared_bytes: number }
  t.ok(sizes.shared_bytes > sizes.bytes / 2, made.out)

  await rm(base, { recursive: true })
  const { files, books } = await readManifest(later)
  await t.resolves(verifyBackupFiles(later, files, () => {}), 'it is whole without the earlier one')
  const [stored] = await stack.select<{ n: string }>('SELECT count() AS n FROM events')
  t.equal(books?.reduce((sum, { events }) => sum + events, 0), Number(stored?.n))
  t.same(await stack.select("SELECT name FROM system.databases WHERE name = 'millrace_backup'"), [], 'no copy is left')
}

/** Nothing of a backup that is damaged, of another version or not complete reaches a data directory. */
async function refusesWhatIsNotWhole (
  t: Test, { root, backup }: { root: string, backup: string }
): Promise<void> {
  const spoilt = path.join(root, 'spoilt')
  await cp(backup, spoilt, { recursive: true })
  const manifest = path.join(spoilt, 'manifest.json')
  const whole = await readFile(manifest, 'utf8')
  const refusal = async (): Promise<string> => {
    const { code, err } = await cli(['restore', spoilt], path.join(root, 'nothing'))
    t.equal(code, 1, err)
    t.same((await readdir(path.join(root, 'nothing'))).filter((name) => !name.startsWith('lock')), ['restore-unfinished.json'], 'the data directory has only the mark')
    return err
  }

  const table = path.join(spoilt, 'postgres', 'projects.copy.zst')
  const bytes = await readFile(table)
  await appendFile(table, 'x')
  t.match(await refusal(), /projects\.copy\.zst .*checksum/)
  await writeFile(table, bytes)

  const { postgres, ...others } = JSON.parse(whole) as { postgres: { migrations: string[] } }
  const migrations = [...postgres.migrations, '9999_of_a_later_version']
  await writeFile(manifest, JSON.stringify({ ...others, postgres: { ...postgres, migrations } }))
  t.match(await refusal(), /of Millrace [\d.]+ \(commit \w+\), and this is [\d.]+ \(commit \w+\), which does not know migration 9999_of_a_later_version of postgres/)

  await rm(manifest)
  t.match(await refusal(), /no complete backup/)
  await rm(spoilt, { recursive: true })
  t.match(await refusal(), /folder .*spoilt does not exist/)

  const started = runMain(t, await chooseSettings(path.join(root, 'nothing')))
  t.equal(await started.exited, 1, 'no new installation takes the place of what should have been restored')
  t.match(started.output(), /was not restored: folder .*spoilt does not exist.* Run "npx millrace restore .*spoilt" again.*For a new installation, with new keys, empty/)
}

async function plantDeadLetter ({ natsUrl }: Stack): Promise<void> {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url: natsUrl, name: 'test', logger })
  await publishDeadLetter(connection, {
    id: 'planted', stage: 'writer', reason: 'refused', error: 'of the test', subject: 'events.live.0', sequence: 1,
    headers: {}, body: new Uint8Array(1)
  })
  await connection.close()
}

function makeEvent (uuid: string): object {
  return {
    event: `event ${uuid.charCodeAt(0) % 3}`,
    uuid,
    distinct_id: `user ${uuid.slice(0, 2)}`,
    properties: { n: 1, $set: { plan: uuid.slice(0, 1) } }
  }
}

/** Sends some hundred events a second until stopped; remembers the uuids of those that were answered with 200. */
function startLoad (stack: Stack): { acknowledged: Set<string>, stop: () => Promise<void> } {
  const acknowledged = new Set<string>()
  const stopped = new AbortController()
  async function run (): Promise<void> {
    while (!stopped.signal.aborted) {
      const uuids = Array.from({ length: 50 }, () => crypto.randomUUID())
      const response = await fetch(`${stack.url}/batch/`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ api_key: stack.projectApiKey, batch: uuids.map(makeEvent) })
      })
      await response.text()
      if (response.status === 200) for (const uuid of uuids) acknowledged.add(uuid)
      await delay(100)
    }
  }
  const running = Promise.all([run(), run()])
  return {
    acknowledged,
    async stop () {
      stopped.abort()
      await running
    }
  }
}

async function cli (
  args: string[], dataDir: string, { isTTY = false } = {}
): Promise<{ code: number, out: string, err: string }> {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, MILLRACE_DATA_DIR: dataDir },
    stdout: { write: (text) => { out += text } },
    stderr: { isTTY, write: (text: string) => { err += text } } as CliWorld['stderr'],
    now: Date.now
  })
  return { code, out, err }
}
