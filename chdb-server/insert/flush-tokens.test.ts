import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createLogger } from '../json-log.ts'
import t from 'tap'
import { LIMITABLE, limitFiles, startTestServer, type TestServer } from '../testing/start-test-server.ts'
import { TokenFlusher } from './flush-tokens.ts'

const WINDOW = 'SETTINGS non_replicated_deduplication_window = 2'

/** Folder of a table's files. */
async function folderOf (server: TestServer, table: string): Promise<string> {
  const { text } = await server.ask(`SELECT data_paths[1] FROM system.tables WHERE database = 'shop' AND name = '${table}'`)
  return text.trim()
}

/** Files of a table's log of tokens which the kernel does not write through; all, when there are none. */
async function findUnflushed (server: TestServer, table: string): Promise<string[]> {
  const folder = path.join(await folderOf(server, table), 'deduplication_logs')
  const files = readdirSync(folder)
  if (files.length === 0) return [folder]
  return files.filter((file) => !/^\S*S/.test(execFileSync('lsattr', [path.join(folder, file)], { encoding: 'utf8' })))
}

const flusher = await TokenFlusher.open(t.testdir(), createLogger('silent'))
const options = flusher.isWrittenThrough ? {} : { skip: 'this file system does not support chattr +S' }

t.test('the kernel writes every log of tokens through: of a new table, a later file, a log repaired at the start', options, async (t) => {
  const server = await startTestServer(t)
  await server.ask(`CREATE TABLE shop.k (a UInt64) ENGINE MergeTree ORDER BY a ${WINDOW}`)
  await server.ask('CREATE TABLE shop.same AS shop.k')
  await server.ask('CREATE TABLE shop.later (a UInt64) ENGINE MergeTree ORDER BY a')
  await server.ask('ALTER TABLE shop.later MODIFY SETTING non_replicated_deduplication_window = 2')
  for (const table of ['k', 'same', 'later']) t.same(await findUnflushed(server, table), [], table)

  // More than the window, so that the engine begins another file.
  for (let i = 0; i < 9; i++) await server.ask('INSERT INTO shop.k FORMAT CSV', { body: String(i) })
  t.same(await findUnflushed(server, 'k'), [])

  await server.stop('SIGKILL')
  const { text } = { text: path.join(server.dataDir, 'clickhouse', 'store') }
  for (const prefix of readdirSync(text)) execFileSync('chattr', ['-R', '-S', path.join(text, prefix)])
  await server.restart()
  t.same(await findUnflushed(server, 'k'), [])
})

t.test('flushes logs of tokens itself where the kernel cannot write them through', async (t) => {
  const engineDir = t.testdir()
  const folder = path.join(engineDir, 'store', 'abc', 'table', 'deduplication_logs')
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'deduplication_log_1.txt'), '1\tall_1_1_0\ttoken\n')
  const { PATH } = process.env
  process.env.PATH = '/nowhere'
  t.teardown(() => { process.env.PATH = PATH })
  const said: string[] = []
  const logger = createLogger('info', (line) => { said.push(line) })

  const flusher = await TokenFlusher.open(engineDir, logger)
  await flusher.flush()
  await flusher.flush()

  t.equal(flusher.isWrittenThrough, false)
  t.equal(said.length, 1)
})

const memory = { skip: !existsSync('/dev/shm') && 'no file system in memory' }

t.test('in memory nothing is flushed, and no power failure is warned of', memory, async (t) => {
  const engineDir = mkdtempSync('/dev/shm/chdb-server-tokens-')
  t.teardown(() => rmSync(engineDir, { recursive: true }))
  const said: string[] = []

  const flusher = await TokenFlusher.open(engineDir, createLogger('info', (line) => { said.push(line) }))
  await flusher.cover()
  await flusher.flush()

  t.equal(flusher.isWrittenThrough, false)
  t.same(said, [])
})

t.test('an insert whose token could not be written is not answered, and stored once when it is repeated', async (t) => {
  const server = await startTestServer(t, { env: LIMITABLE })
  await server.ask(`CREATE TABLE shop.k (a UInt64) ENGINE MergeTree ORDER BY a
    SETTINGS non_replicated_deduplication_window = 1000`)
  await server.ask('SYSTEM STOP MERGES')
  const insertOne = async (value: number): Promise<number> => (await server.ask('INSERT INTO shop.k FORMAT CSV', {
    body: `${value}\n`, params: { insert_deduplication_token: `value-${value}` }
  })).status
  for (let value = 0; value < 100; value++) await insertOne(value)
  const folder = await folderOf(server, 'k')
  // The log of tokens is longer than any file of a part with one row.
  limitFiles(server, statSync(path.join(folder, 'deduplication_logs', 'deduplication_log_1.txt')).size)

  await t.rejects(insertOne(100), { code: 'ECONNRESET' })
  t.equal(await server.stop('SIGTERM'), 'SIGKILL')
  t.ok(existsSync(path.join(folder, 'all_101_101_0')), 'its part is whole')
  await server.restart()

  t.equal(await insertOne(100), 200)
  t.equal(await insertOne(100), 200)
  t.equal((await server.ask('SELECT count(), uniqExact(a) FROM shop.k')).text, '101\t101\n')
})
