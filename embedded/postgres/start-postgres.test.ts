import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import t from 'tap'
import type { TestContext } from '../../test/support/test-context.ts'
import { isRoot, POSTGRES_UID } from './postgres-cluster.ts'
import { startPostgres } from './start-postgres.ts'
import type { Service } from '../supervisor/processes/service.ts'

const password = 'with a blank / and a slash'

/** Used by one test after the other, as making the files of a server costs more than everything else here. */
const dataDir = await makeDataDir(t)

t.test('keeps its data over a stop and a new start', async (t) => {
  const first = await start(t, dataDir)
  await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS answer')
  await first.stop()

  const second = await start(t, dataDir)

  t.same(await query(second.url, 'SELECT answer FROM kept'), [{ answer: 1 }])
})

t.test('starts again after it was killed, while processes of the killed server may linger', async (t) => {
  const first = await start(t, dataDir)
  await query(first.url, 'CREATE TABLE kept_when_killed AS SELECT 1 AS answer')
  first.kill('SIGKILL')
  await first.exited

  const second = await start(t, dataDir)

  t.same(await query(second.url, 'SELECT answer FROM kept_when_killed'), [{ answer: 1 }])
})

t.test('does not mistake another process, which got the number of a killed server, for a server', async (t) => {
  const first = await start(t, dataDir)
  const lockFile = path.join(dataDir, 'postgres', 'cluster', 'postmaster.pid')
  const lock = await readFile(lockFile, 'utf8')
  first.kill('SIGKILL')
  await first.exited
  // This test is alive, and is no server.
  await writeFile(lockFile, lock.replace(/^\d+/, String(process.pid)))

  const second = await start(t, dataDir)

  t.same(await query(second.url, 'SELECT 1 AS answer'), [{ answer: 1 }])
})

t.test('ends a server that still runs on the files, as a killed stack leaves it', async (t) => {
  const first = await start(t, dataDir)

  const second = await start(t, dataDir)

  t.same(await query(second.url, 'SELECT 1 AS answer'), [{ answer: 1 }])
  await first.exited
})

t.test('starts over after an interrupted first start, below a folder that nobody else may enter, whose permissions stay', async (t) => {
  const outer = await makeDataDir(t)
  await chmod(outer, 0o700)
  const dataDir = path.join(outer, 'inner', 'data')
  await mkdir(path.join(dataDir, 'postgres', 'cluster.new', 'base'), { recursive: true })

  const service = await start(t, dataDir)

  t.same(await query(service.url, 'SELECT 1 AS answer'), [{ answer: 1 }])
  t.equal((await stat(outer)).mode & 0o777, 0o700)
})

t.test('never runs as root', { skip: isRoot() ? false : 'this test does not run as root' }, async (t) => {
  const service = await start(t, dataDir)

  const status = await readFile(`/proc/${service.pid}/status`, 'utf8')
  t.match(status, new RegExp(`^Uid:\\s+${POSTGRES_UID}\\s+${POSTGRES_UID}`, 'm'))
  t.equal((await stat(path.join(dataDir, 'postgres', 'cluster'))).uid, POSTGRES_UID)
})

t.test('says at once that the password is not the one of the files', async (t) => {
  await (await start(t, dataDir)).stop()

  await t.rejects(startPostgres({ dataDir, port: 0, password: 'another' }), /credentials\.json/)
})

async function makeDataDir (t: TestContext): Promise<string> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-postgres-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  return dataDir
}

async function start (t: TestContext, dataDir: string): Promise<Service> {
  const service = await startPostgres({ dataDir, port: 0, password, durable: false })
  t.teardown(async () => { await service.stop() })
  return service
}

async function query (url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}
