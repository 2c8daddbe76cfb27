import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { readManifest } from '../../cli/backup/backup-folder.ts'
import { restorePostgres } from '../../cli/backup/postgres-backup.ts'
import { runCaptured } from '../../cli/testing/run-captured.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { ensureDatabase } from '../../embedded/postgres/ensure-database.ts'
import { startPostgres } from '../../embedded/postgres/start-postgres.ts'
import { chooseSettings, runMain } from '../../embedded/supervisor/testing/run-main.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { migratePostgres } from '../../schema/migrate/migrate-all.ts'
import { readMigrations } from '../../schema/migrate/read-migrations.ts'
import { waitFor } from '../support/wait-for.ts'
import { FILE_TIMEOUT_MS } from '../test-pool.ts'
import { ANSWERS, BACKUP, DATA_DIR, fileOf, listReleases, unpackFolder } from './release-files.ts'
import { type Answer, askStack, type Question, WAITING } from './released-installation.ts'

t.setTimeout(FILE_TIMEOUT_MS)

const SCHEMA = path.join(import.meta.dirname, '..', '..', 'schema')
const DATABASES = ['postgres', 'clickhouse'] as const

for (const version of await listReleases()) {
  const root = await mkdtemp(path.join(tmpdir(), `millrace-test-${version}-`))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const backup = path.join(root, 'backup')
  await unpackFolder(fileOf(version, BACKUP), backup)
  const expected = (await readFile(fileOf(version, ANSWERS), 'utf8')).trim().split('\n').map((line) => JSON.parse(line) as Answer)

  t.test(`a backup of ${version} is restored, with all that it holds`, async (t) => {
    const dataDir = path.join(root, 'restored')
    const { code, out, err } = await runCaptured(['restore', backup, '--json'], { PATH: process.env.PATH, HOME: process.env.HOME, MILLRACE_DATA_DIR: dataDir })
    t.equal(code, 0, err)
    const manifest = await readManifest(backup)
    const newer = await Promise.all(DATABASES.map(async (database) => {
      const all = await readMigrations(path.join(SCHEMA, database))
      return all.filter(({ name }) => !manifest[database].migrations.includes(name)).map(({ name }) => `${database}/${name}`)
    }))
    t.match(JSON.parse(out), { version, migrations: newer.flat(), left_out: [] })
    await runMain(t, await chooseSettings(dataDir)).ready()
    await isAsItWas(t, dataDir, expected)
  })

  t.test(`a data directory of ${version} is opened, with all that it holds, and stores what waits in its stream`, async (t) => {
    const dataDir = path.join(root, 'data')
    await unpackFolder(fileOf(version, DATA_DIR), dataDir)
    await makePostgres(dataDir, backup)
    await runMain(t, await chooseSettings(dataDir)).ready()
    const stored: Question = ['clickhouse', "SELECT toUInt32(count()) AS n FROM events FINAL WHERE event = 'waiting'"]
    await waitFor(async () => JSON.stringify(await askStack(dataDir, [stored])).includes(`[{"n":${WAITING}}]`))
    await isAsItWas(t, dataDir, expected)
  })
}

/** Everything is answered as the release answered it, and new events and flags work with its keys. */
async function isAsItWas (t: Test, dataDir: string, expected: readonly Answer[]): Promise<void> {
  const answers = await askStack(dataDir, expected.map(([target, question]): Question => [target, question]))
  for (const [index, [target, question, answer]] of expected.entries()) {
    // Later versions may say more.
    if (target === 'api') t.match(answers[index]?.[2], fieldsOf(answer), question)
    else t.same(answers[index]?.[2], answer, question)
  }
  const { baseUrl } = await readAddresses(dataDir)
  const { projectApiKey } = fieldsOf(JSON.parse(await readFile(path.join(dataDir, 'credentials.json'), 'utf8')))
  const post = async (at: string, body: object): Promise<unknown> => await (await fetch(`${baseUrl}${at}`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: projectApiKey, ...body })
  })).json()
  t.match(await post('/flags/?v=2', { distinct_id: 'jo@example.com' }), { flags: { 'new-checkout': { enabled: false } } })
  t.match(await post('/batch/', { batch: [{ event: 'new', distinct_id: 'jo@example.com' }] }), { status: 1 })
  const [inEvents, inTheirs]: Question[] = [
    ['clickhouse', "SELECT toUInt32(count()) AS n FROM events_with_person WHERE event = 'new' AND person_id = (SELECT any(person_id) FROM events_with_person WHERE event = '$identify')"],
    ['clickhouse', "SELECT toUInt32(sum(n)) AS n FROM marts.daily WHERE event = 'new'"]
  ]
  await waitFor(async () => JSON.stringify(await askStack(dataDir, [inEvents!])).includes('[{"n":1}]'))
  // Theirs, too: the view is filled a moment after the table that it reads.
  await waitFor(async () => JSON.stringify(await askStack(dataDir, [inTheirs!])).includes('[{"n":1}]'))
}

/**
 * Postgres as the release left it: its migrations, its rows, and what it recorded of itself. The files of a cluster
 * would be 4 MB, and are the same for all versions of Millrace with one major version of Postgres.
 */
async function makePostgres (dataDir: string, backup: string): Promise<void> {
  const manifest = await readManifest(backup)
  const { postgresPassword } = fieldsOf(JSON.parse(await readFile(path.join(dataDir, 'credentials.json'), 'utf8')))
  const postgres = await startPostgres({ dataDir, port: 0, password: String(postgresPassword), createDatabase: false })
  await ensureDatabase(postgres.url)
  const client = new Client({ connectionString: postgres.url })
  await client.connect()
  await migratePostgres(client, manifest.postgres.migrations)
  await client.query('INSERT INTO schema_versions (version, oldest_compatible, files) VALUES ($1, $1, $2)', [manifest.version, {}])
  await client.end()
  const sql = connectPostgres({ url: postgres.url, max: 1 })
  await restorePostgres(sql, manifest.postgres, { folder: backup, onBytes: () => {} })
  await sql.end({ timeout: 1 })
  await postgres.stop()
}
