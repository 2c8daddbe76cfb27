import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { release, tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import type { Service } from './processes/service.ts'
import { startClickHouse } from './start-clickhouse.ts'

const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-confined-'))
const credentials = path.join(dataDir, 'credentials.json')
await writeFile(credentials, '{"personalApiKey":"phx_canary"}\n', { mode: 0o600 })
const MEMORY_BYTES = 700_000_000
// No folder can be made there, not even by root; it starts all the same.
process.env.NODE_COMPILE_CACHE = path.join(credentials, 'compiled')
const service = await startClickHouse({
  dataDir, port: 0, password: 'owner canary', analystPassword: 'reader canary', memoryBytes: MEMORY_BYTES
})
t.teardown(async () => {
  await service.stop()
  await rm(dataDir, { recursive: true, force: true })
})
const log = await readFile(service.logFile, 'utf8')
/** Elsewhere than on Linux, and on kernels without Landlock, the log must say so instead. */
const isConfined = log.includes('the kernel confines the engine')

/** Runs a query as the unrestricted owner: what the process cannot do, no query can. */
async function ask (query: string): Promise<string> {
  const { port } = service as Service
  const response = await fetch(`http://127.0.0.1:${port}/?database=millrace`, {
    method: 'POST', body: query, headers: { 'x-clickhouse-user': 'millrace', 'x-clickhouse-key': 'owner canary' }
  })
  return await response.text()
}

t.test('says whether the kernel confines the engine', async (t) => {
  t.equal(isConfined, !log.includes('the kernel does not confine the engine'), log)
  if (process.platform === 'linux') t.comment(isConfined ? 'confined' : 'this kernel has no Landlock, or there is no Perl')
})

t.test('the memory of the engine is bounded: a query that would exceed it fails, and the next one runs', async (t) => {
  t.equal(await ask("SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'"), `${MEMORY_BYTES}\n`)
  t.equal(await ask("SELECT value FROM system.server_settings WHERE name = 'memory_worker_use_cgroup'"), '0\n',
    'what other processes of its container use is not counted')
  // 800 MB of numbers in one state.
  t.match(await ask('SELECT length(groupArray(number)) FROM numbers(100000000) SETTINGS max_threads = 1'), 'MEMORY_LIMIT_EXCEEDED')
  t.equal(await ask('SELECT 1'), '1\n')
})

t.test('the engine has no password: not in its environment, nor on its command line', async (t) => {
  const environment = await readFile(`/proc/${service.pid}/environ`, 'utf8').catch(() => '')
  const command = await readFile(`/proc/${service.pid}/cmdline`, 'utf8').catch(() => '')

  t.notMatch(environment + command, 'canary')
  t.notMatch(await ask("SELECT * FROM file('/proc/self/environ', LineAsString)"), 'canary')
})

t.test('the process of the engine can read only its own files', { skip: !isConfined }, async (t) => {
  const files = [credentials, `/proc/${process.pid}/environ`, `/proc/${process.pid}/root${credentials}`, '/etc/shadow',
    path.resolve(import.meta.dirname, '../../README.md'), service.logFile, path.join(dataDir, 'logs/../credentials.json')]
  for (const file of files) {
    const answer = await ask(`SELECT length(file('${file}'))`)
    t.match(answer, /Permission denied/, file)
    t.match(await ask(`SELECT * FROM file('${file}', LineAsString)`), /Exception/, file)
  }
})

t.test('the process of the engine connects to nobody', { skip: !isConfined }, async (t) => {
  let connections = 0
  const server = createServer((socket) => { connections++; socket.destroy() }).listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  const answer = await ask(`SELECT * FROM url('http://127.0.0.1:${port}/', LineAsString) SETTINGS http_max_tries = 1`)

  server.close()
  t.match(answer, /Exception/)
  const [major = 0, minor = 0] = release().split('.').map(Number)
  // Kernels before 6.7 confine files only.
  if (major > 6 || (major === 6 && minor >= 7)) t.equal(connections, 0, answer)
})

t.test('does all that it has to do', async (t) => {
  const steps = [
    'CREATE TABLE kept (a UInt64, b String) ENGINE MergeTree ORDER BY a',
    "INSERT INTO kept SELECT number, repeat('x', 100) FROM numbers(300000)", 'INSERT INTO kept SELECT 1, toString(1)', 'OPTIMIZE TABLE kept FINAL',
    "ALTER TABLE kept DELETE WHERE b = '1' SETTINGS mutations_sync = 2", "BACKUP TABLE kept TO File('one')", 'DROP TABLE kept SYNC',
    "RESTORE TABLE kept FROM File('one')", 'ALTER TABLE kept DETACH PARTITION ID \'all\'', "ALTER TABLE kept ATTACH PARTITION ID 'all'", 'RENAME TABLE kept TO moved'
  ]
  for (const step of steps) t.notMatch(await ask(step), /Exception/, step)

  const spilled = 'SELECT count() FROM (SELECT a, b FROM moved ORDER BY cityHash64(a)) SETTINGS max_bytes_before_external_sort = 1000000'
  t.equal(await ask(spilled), '300000\n')
})
