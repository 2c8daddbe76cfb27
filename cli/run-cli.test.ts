import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { buildStatus } from '../api/status/build-status.ts'
import { lockDataDir } from '../embedded/data-dir/data-dir-lock.ts'
import { hashPersonalKey } from '../schema/key-text.ts'
import { createReadKeys, readProjects } from '../platform/directory/read-keys.ts'
import { createTestPostgres } from '../test/support/test-stores.ts'
import { createCliContext } from './cli-context.ts'
import { findTiers } from './commands/status.ts'
import { readString } from './read-arguments.ts'
import { type Captured, runCaptured, startApi } from './testing/run-captured.ts'

const NOW = Date.parse('2030-01-01T00:00:00Z')

const stores = { nats: null, clickhouse: null, postgres: null, watermark: null }
const reading = { time: new Date(0), tiers: [], stores }
const status = buildStatus(reading, reading)
const api = await startApi(t, { now: () => NOW, status: async () => status })
const { run, sql } = api

async function runIn (env: NodeJS.ProcessEnv, args: string[]): Promise<Captured> {
  return await runCaptured(args, env, { now: () => NOW })
}

t.test('creates a project, lists it, and rotates its key with a grace period', async (t) => {
  const created = JSON.parse((await run('projects', 'create', 'Shop', '--timezone', 'Europe/Berlin', '--json')).out)
  const rotated = JSON.parse((await run('projects', 'rotate-key', String(created.id), '--grace', '2d', '--json')).out)
  const listed = JSON.parse((await run('projects', 'list', '--json')).out)
  const keys = JSON.parse((await run('projects', 'keys', String(created.id), '--json')).out)

  t.match(created, { id: Number, name: 'Shop', timezone: 'Europe/Berlin', api_token: /^phc_\w{43}$/ })
  t.match(rotated, { api_key: /^phc_/, old_keys: [created.api_token], old_keys_expire_at: '2030-01-03T00:00:00.000Z' })
  t.match(listed, [{ name: 'Test' }, { id: created.id, api_token: rotated.api_key }])
  t.match(keys, [{ api_key: rotated.api_key, expires_at: null }, { api_key: created.api_token, expires_at: /^2030-01-03/ }])
})

t.test('creates a personal key that is shown once and stored as a hash', async (t) => {
  await run('request', 'POST', '/api/users', '--data', '{"email":"Bob@Example.com","first_name":"Bob"}')

  const created = await run('keys', 'create', '--user', 'bob@example.com', '--label', 'ci', '--scope', 'experiment:write,feature_flag:read', '--project', '1', '--expires', '90d')
  const key = /key +(phx_\w{43})/.exec(created.out)?.[1] ?? ''
  const listed = await run('keys', 'list')

  t.match(created, { code: 0, err: /only its hash is stored/ })
  const { personalKeys } = await createReadKeys(sql, { withOwners: true, readProjects })()
  const [bob] = await sql`SELECT id FROM users WHERE email = 'bob@example.com' AND first_name = 'Bob'`
  t.match(personalKeys.get(hashPersonalKey(key)), {
    owner: { userId: bob?.id }, scopes: ['experiment:write', 'feature_flag:read'],
    projectIds: [1], expiresAt: Date.parse('2030-04-01T00:00:00Z'), isRevoked: false
  })
  t.match(listed.out, new RegExp(`phx_\\.\\.\\.${key.slice(-4)} +bob@example.com +ci `))
  t.notMatch(listed.out + JSON.stringify(await sql`SELECT * FROM personal_api_keys`), key)
})

t.test('revokes a key by its id or by the key itself', async (t) => {
  const [first, second] = [JSON.parse((await run('keys', 'create', '--json')).out), JSON.parse((await run('keys', 'create', '--json')).out)]

  t.equal((await run('keys', 'revoke', first.id)).code, 0)
  t.equal((await run('keys', 'revoke', second.value)).code, 0)
  t.match(await run('keys', 'revoke', 'phx_unknown'), { code: 1, err: /no personal key matches phx_...nown/ })

  t.same((await sql`SELECT id FROM personal_api_keys WHERE revoked_at IS NOT NULL`).map(({ id }) => id).sort(), [first.id, second.id].sort())
})

t.test('creates the first key in Postgres itself, again when all are lost', async (t) => {
  const bootstrap = async (email: string): Promise<Captured> => await runIn({ DATABASE_URL: api.databaseUrl }, ['keys', 'bootstrap', email])

  for (const email of ['new@example.com', 'New@example.com']) {
    const { code, out } = await bootstrap(email)
    t.equal(code, 0)
    t.match(await runIn({ ...api.env, MILLRACE_KEY: out.trim() }, ['projects', 'create', 'First']), { code: 0, out: /phc_/ })
  }
  t.match(await bootstrap('nobody'), { code: 1, err: /is not an e-mail address/ })
})

t.test('names the error and the remedy', async (t) => {
  t.match(await run('keys', 'create', '--user', 'c@example.com'), { code: 1, err: /there is no user c@example.com/ })
  t.match(await run('keys', 'create', '--scope', 'all'), { code: 1, err: /"all" is not a scope/ })
  t.match(await run('keys', 'create', '--project', '7', '--project', '8'), { code: 1, err: /no project 7/ })
  t.match(await run('projects', 'rotate-key', '7'), { code: 1, err: /there is no project 7/ })
  t.match(await run('projects', 'create', 'Shop', '--timezone', 'Mars/Phobos'), { code: 1, err: /Unknown time zone/ })
})

t.test('exits with 2 for a command line that is wrong', async (t) => {
  const run = async (line: string): Promise<Captured> => await runIn({}, line.split(' '))

  for (const line of ['proyects list', 'projects create', 'projects rotate-key one', 'projects list --xml', 'keys create --expires soon']) {
    const { code, err } = await run(line)
    t.equal(code, 2, line)
    t.match(err, /error: /)
  }
  for (const line of ['keys revoke', 'request', 'request PUT /api/x', 'request GET projects']) {
    t.match(await run(line), { code: 2, out: '' }, line)
  }
  for (const [line, hint] of Object.entries({
    doctor: /unknown command 'doctor'\n\(Did you mean status, check or audit\?\)/, 'doctor --fix it': /Did you mean status/, stauts: /Did you mean status/,
    upgrade: /Did you mean migrate/, frobnicate: /add --help for the commands/, 'help doctor': /unknown command 'doctor'/
  })) t.match(await run(line), { code: 2, out: '', err: hint }, line)
  t.notMatch((await run('--help')).out, /doctor/)
  for (const line of ['help nope', 'projects help nope']) {
    t.match(await run(line), { code: 2, out: '', err: /unknown command 'nope'/ }, line)
  }
  t.match(await run('help projects'), { code: 0, out: /rotate-key/ })
  t.match(await run('projects help list'), { code: 0, out: /Usage: millrace projects list/ })
  t.match(await run('help'), { code: 0, out: /dead-letters/ })
  t.equal((await run('--help')).code, 0)
  t.match((await run('projects --help')).out, /rotate-key/)
  t.match((await run('import --help')).out, /--url <url>[^]*--key <key>/)
})

t.test('refuses a repeated option, an empty value, and a project that does not exist, in every command', async (t) => {
  const { url } = await createTestPostgres(t)
  const run = async (...args: string[]): Promise<Captured> => await runIn({ DATABASE_URL: url, NATS_URL: 'nats://127.0.0.1:9' }, args)

  for (const args of [
    ['audit', '--project', '1', '--project', '2'], ['keys', 'create', '--label', 'a', '--label', 'b'], ['dead-letters', 'list', '--stage', 'writer', '--stage', 'schema']
  ]) t.match(await run(...args), { code: 2, err: /can only be given once/ }, args.join(' '))
  for (const args of [
    ['audit', '--project', ''], ['dead-letters', 'list', '--event', ''], ['keys', 'create', '--label', ' '],
    ['keys', 'create', '--scope', ','], ['status', '--ingest', ''], ['backup', '']
  ]) t.match(await run(...args), { code: 2, err: /give a value/i }, args.join(' '))
  t.match(await run('dead-letters', 'list', '--from', '2026-01-02', '--to', '2026-01-01'), { code: 2, err: /--from must be before --to/ })

  t.match(await api.run('projects', 'keys', '999'), { code: 1, out: '', err: /there is no project 999/ })
})

t.test('finds the API by options, by the environment, and by the stack on the data directory', async (t) => {
  const { MILLRACE_URL: url, MILLRACE_KEY: key } = api.env
  const list = ['request', 'get', '/api/projects/1/rules/']
  const dataDir = t.testdir({
    'credentials.json': JSON.stringify({ personalApiKey: key }), 'addresses.json': JSON.stringify({ pid: process.pid, baseUrl: url })
  })
  const lock = await lockDataDir(dataDir)
  t.teardown(async () => await lock.release())

  t.match(await runIn({}, ['--url', url, '--key', key, ...list]), { code: 0, out: /"count": 0/ })
  t.match(await runIn({ MILLRACE_URL: url, MILLRACE_KEY: 'phx_other' }, ['--key', key, ...list]), { code: 0 }, 'an option wins')
  t.match(await runIn({ MILLRACE_DATA_DIR: dataDir }, list), { code: 0 }, 'with the key of the stack')
  t.match(await runIn({ MILLRACE_DATA_DIR: dataDir, MILLRACE_URL: url }, list), { code: 1, err: /no personal API key for/ }, 'which is sent nowhere else')
  t.match(await runIn({ MILLRACE_URL: url, MILLRACE_KEY: 'phx_other' }, list), { code: 1, err: /not a valid|invalid|unknown/i })
  t.match(await runIn({ MILLRACE_URL: 'ftp://x' }, list), { code: 1 })
  t.match(await runIn({}, ['--url', 'x', ...list]), { code: 2, err: /begins with http/ })
})

t.test('shows the status of another machine by its API', async (t) => {
  t.same(JSON.parse((await api.run('status', '--json')).out), JSON.parse(JSON.stringify(status)), 'with all its figures')
  t.match((await api.run('status')).out, /^Millrace .* DOWN {2}Captures get no answer/)
})

t.test('says that the API does not answer, or something else does', async (t) => {
  const servers = [createServer(() => {}), createServer((_, answer) => { answer.writeHead(502).end('<h1>Bad gateway</h1>') })]
  const [silent, gateway] = await Promise.all(servers.map(async (server) => {
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.teardown(() => { server.closeAllConnections(); server.close() })
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }))
  const list = async (url: string, timeout = '60s'): Promise<Captured> =>
    await runIn({ MILLRACE_URL: url, MILLRACE_KEY: 'phx_a' }, ['--timeout', timeout, 'projects', 'list'])

  t.match(await list(silent!, '1s'), { code: 3, err: /the API at .* does not answer \(The operation was aborted due to timeout\);/ })
  t.match(await runIn({ MILLRACE_URL: silent!, MILLRACE_KEY: 'phx_a' }, ['--timeout', '1s', 'request', 'GET', '/api/projects/']), { code: 3, err: /does not answer/ })
  t.match(await list('http://127.0.0.1:2'), { code: 3, err: /does not answer \(connect ECONNREFUSED 127\.0\.0\.1:2\);/ })
  t.match(await list(gateway!), { code: 3, err: /answered 502, but the response is not from the Millrace API/ })
})

t.test('finds the services of the stack that runs on the data directory', async (t) => {
  const { url } = await createTestPostgres(t)
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-cli-'))
  t.teardown(async () => await rm(dataDir, { recursive: true }))
  const bootstrap = ['keys', 'bootstrap', 'ann@example.com']

  const lock = await lockDataDir(dataDir)
  await writeFile(path.join(dataDir, 'addresses.json'), JSON.stringify({ pid: process.pid, databaseUrl: url }))

  t.match(await runIn({ MILLRACE_DATA_DIR: dataDir }, bootstrap), { code: 0, out: /^phx_\w{43}\n$/ })

  await lock.release()
  const killed = await runIn({ MILLRACE_DATA_DIR: dataDir }, bootstrap)
  t.match(killed, { code: 1, out: '', err: /was killed .* nothing of it runs any more: start it/ })
})

t.test('asks the tiers at the ports of the settings, where no stack was ever started', async (t) => {
  const ports = { MILLRACE_DATA_DIR: path.join(t.testdir(), 'none'), MILLRACE_PORT: '29700', MILLRACE_API_PORT: '29701', MILLRACE_PIPELINE_PORT: '29702' }
  const local = (port: number): string[] => [`http://127.0.0.1:${port}`]

  t.same(await findTiers(ports, {}), { ingest: local(29700), api: local(29701), pipeline: local(29702) })
  t.match(await findTiers({ ...ports, MILLRACE_API_URL: 'http://api.internal' }, {}), { api: ['http://api.internal'] })
  t.match(await findTiers({ ...ports, MILLRACE_API_PORT: '' }, {}), { api: local(8001) })
})

t.test('asks no other stack when the one on the data directory is stopped', async (t) => {
  const dataDir = t.testdir({ 'credentials.json': '{}' })

  t.match(await runIn({ MILLRACE_DATA_DIR: dataDir }, ['dead-letters', 'list']), { code: 1, out: '', err: /the stack on the data directory .* is stopped/ })
  const status = await runIn({ MILLRACE_DATA_DIR: dataDir }, ['status', '--json'])
  t.match(JSON.parse(status.out), { clients: { captures: 'no answer', flags: 'no answer' }, tiers: [{ url: '' }, { url: '' }, { url: '' }] })
  t.match(status.err, /the stack on the data directory .* is stopped/)
  const { out } = await runIn({ MILLRACE_DATA_DIR: dataDir }, ['status', '--once'])
  t.match(out, 'STUCK  ingest: not running; pipeline: not running; api: not running; ')
  t.match(out, `the stack on the data directory ${dataDir} is stopped`)
  t.notMatch(out, /127\.0\.0\.1/, 'nobody was asked')
})

t.test('says that a backup may not be read, instead of calling it none', async (t) => {
  const folder = t.testdir({ 'manifest.json': '{}' })
  if (process.getuid?.() === 0) return t.comment('NOT RUN: root may read everything')
  await chmod(path.join(folder, 'manifest.json'), 0)

  t.match(await runIn({ MILLRACE_DATA_DIR: path.join(folder, 'new') }, ['restore', folder]), { code: 1, err: /may not read .*: run the command as/ })
})

t.test('says that no service answers', async (t) => {
  const run = await runIn({ DATABASE_URL: 'postgres://millrace@127.0.0.1:9/none' }, ['keys', 'bootstrap', 'ann@example.com'])

  t.match(run, { code: 3, out: '', err: /postgres does not answer; .*start Millrace .*set DATABASE_URL\n/ })
})

t.test('migrates what the settings name, and says which server does not answer without its password', async (t) => {
  const clickhouse = 'http://m:hush@127.0.0.1:9/millrace'
  const migrate = async (env: NodeJS.ProcessEnv): Promise<Captured> => await runIn({ MILLRACE_DATA_DIR: t.testdir(), ...env }, ['migrate', '--timeout', '60s'])

  t.match(await migrate({ DATABASE_URL: 'postgres://m:hush@127.0.0.1:9/none', CLICKHOUSE_URL: clickhouse }), { code: 3, out: '', err: /^millrace: postgres and clickhouse do not answer; .*set DATABASE_URL or CLICKHOUSE_URL\n$/ })
  t.match(await migrate({ DATABASE_URL: api.databaseUrl, CLICKHOUSE_URL: clickhouse }), { code: 3, out: '', err: /^millrace: clickhouse does not answer; .*set CLICKHOUSE_URL\n$/ })
  const wrong = await migrate({ DATABASE_URL: api.databaseUrl, CLICKHOUSE_URL: 'http://m:hu#sh@127.0.0.1:9/millrace' })
  t.match(wrong, { code: 1, out: '', err: /CLICKHOUSE_URL/ })
  t.notMatch(wrong.err, /hu#sh/)
  t.match(await migrate({ DATABASE_URL: api.databaseUrl }), { code: 2, out: '', err: /set DATABASE_URL and CLICKHOUSE_URL, or neither/ })
})

t.test('a server that hangs ends a migration, and a pause of the command itself does not count', async (t) => {
  const sockets: Socket[] = []
  const hanging = createTcpServer((socket) => { sockets.push(socket) }).listen(0, '127.0.0.1')
  t.teardown(() => {
    hanging.close()
    for (const socket of sockets) socket.destroy()
  })
  await once(hanging, 'listening')
  const url = `postgres://m@127.0.0.1:${(hanging.address() as AddressInfo).port}/none`
  t.match(await runIn({ DATABASE_URL: url, CLICKHOUSE_URL: 'http://127.0.0.1:9/millrace' }, ['migrate', '--timeout', '1s']), { code: 3, err: /postgres/ })

  const { stdout, stderr } = process
  const context = createCliContext({ env: { DATABASE_URL: api.databaseUrl }, stdout, stderr, now: Date.now })
  t.teardown(async () => { await context.close() })
  context.timeoutMs = 3000
  await context.postgres()
  await delay(1100)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000)
  t.equal(await Promise.race([context.silence, delay(1500, 'answers')]), 'answers')
})

t.test('never lets a name write to the terminal', async (t) => {
  await run('projects', 'create', 'evil\u001b[2J')

  t.notOk((await run('projects', 'list')).out.includes('\u001b'))
})

t.test('a text is measured in characters, and refused when no column can hold it', async (t) => {
  const read = readString(5)

  for (const text of ['a', 'short', '😀'.repeat(5)]) t.equal(read(text), text)
  for (const text of ['', ' ', 'longer', '😀'.repeat(6), 'a\0b', 'a\ud800']) t.throws(() => read(text), /1 to 5 characters/, JSON.stringify(text))
})
