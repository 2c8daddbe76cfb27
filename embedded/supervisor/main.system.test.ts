import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { chmod, copyFile, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import type { TestContext } from '../../test/support/test-context.ts'
import { runInShell } from '../../test/support/run-in-shell.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { chooseSettings, makeDataDir, runMain } from './testing/run-main.ts'
import { findNatsServer } from '../nats/find-nats-server.ts'
import { canEnter } from '../postgres/find-postgres.ts'
import { isRoot, readNobodyUid } from '../postgres/postgres-cluster.ts'
import { readProcessIdentity } from './processes/recorded-processes.ts'
import { readAddresses, readStackState } from '../data-dir/stack-access.ts'

const run = promisify(execFile)

/** Asks for management and flags as soon as the origin says for the first time that it is ready. */
async function askWhenReady (settings: Record<string, string>): Promise<{ requests: number, refused: string[] }> {
  const { MILLRACE_PORT: port, MILLRACE_PERSONAL_API_KEY: key, MILLRACE_PROJECT_API_KEY: token } = settings
  const origin = `http://127.0.0.1:${port}`
  await waitFor(async () => (await fetch(`${origin}/_readiness`)).status === 200, { everyMs: 5 })
  const management = { headers: { authorization: `Bearer ${key}` } }
  const flags = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: token, distinct_id: 'you' }) }
  const answers = await Promise.all(Array.from({ length: 25 }, async () => await Promise.all([
    fetch(`${origin}/api/projects/1/experiments/`, management), fetch(`${origin}/flags/?v=2`, flags)
  ])))
  const refused = answers.flat().filter(({ status }) => status !== 200)
  return { requests: answers.length * 2, refused: await Promise.all(refused.map(async (answer) => `${answer.status} ${await answer.text()}`)) }
}

/** All processes of a stack, without its supervisor. */
const PARTS = ['api', 'clickhouse', 'ingest', 'nats-server', 'pipeline', 'postgres']

t.test('on an empty data directory', async (t) => {
  const dataDir = await makeDataDir(t)
  const settings: Record<string, string> = {
    ...await chooseSettings(dataDir), MILLRACE_PROJECT_API_KEY: 'phc_of_the_test', MILLRACE_PERSONAL_API_KEY: 'phx_of_the_test',
    MILLRACE_GEOIP_PATH: path.join(dataDir, 'no such.mmdb')
  }
  const main = runMain(t, settings)
  const first = await askWhenReady(settings)
  await main.ready()

  t.same(first, { requests: 50, refused: [] }, 'once the origin answers, no request is refused')

  await t.test('prints lines that work as they are', async (t) => {
    const [send, read] = readCommands(main.output())

    t.match(JSON.parse(await runInShell(send)), { status: 1 })
    t.match(await waitForText(read, 'hello'), /hello.*you/)
    t.match(main.output(), /Personal API key +phx_\w+/)
    t.equal((await stat(path.join(dataDir, 'credentials.json'))).mode & 0o777, 0o600)
  })

  await t.test('says at the start, and in the health of ingest and API, that its file of places cannot be used', async (t) => {
    for (const tier of ['ingest', 'api']) t.match(main.output(), new RegExp(`^ +DEGRADED +${tier}: geoip: .*no such\\.mmdb cannot be used: ENOENT`, 'm'))
    const { baseUrl, apiUrl } = await readAddresses(dataDir)
    for (const url of [baseUrl, apiUrl]) t.match(await (await fetch(`${url}/_health`)).json(), { status: 'degraded', stuck: ['geoip'] })
  })

  await t.test('refuses a second stack and names the process of the first', async (t) => {
    const second = runMain(t, settings)

    t.equal(await second.exited, 1)
    t.match(second.output(), new RegExp(`is already running on .* as process ${main.child.pid}`))
  })

  await t.test('names the ports that are in use and the settings that change them', async (t) => {
    const second = runMain(t, { ...settings, MILLRACE_DATA_DIR: await makeDataDir(t) })

    t.equal(await second.exited, 1)
    for (const name of ['MILLRACE_PORT', 'MILLRACE_CLICKHOUSE_PORT', 'MILLRACE_NATS_PORT', 'MILLRACE_POSTGRES_PORT']) {
      t.match(second.output(), new RegExp(`port ${settings[name]} .* is in use by another process: set ${name}`))
    }
  })

  await t.test('uses the servers of NATS_URL, DATABASE_URL and CLICKHOUSE_URL instead of its own', async (t) => {
    const { natsUrl, databaseUrl, clickhouseUrl } = await readAddresses(dataDir)
    const otherDir = await makeDataDir(t)
    const chosen: Record<string, string> = await chooseSettings(otherDir)
    const publicUrl = `http://localhost:${chosen.MILLRACE_PORT}`
    const other = runMain(t, {
      ...chosen, NATS_URL: natsUrl, DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, MILLRACE_PUBLIC_URL: `${publicUrl}/`
    })
    await other.ready()
    t.match(other.output(), `Base URL           ${publicUrl}\n`, 'and says where clients reach it')

    t.same(Object.keys(await readParts(otherDir)).sort(), ['api', 'ingest', 'pipeline'])
    t.match(await readAddresses(otherDir), { natsUrl, databaseUrl, clickhouseUrl })
    const [send, read] = readCommands(other.output())
    await runInShell(send.replace('hello', 'elsewhere'))
    const { password } = new URL(clickhouseUrl)
    t.notMatch(read, password, 'the password of CLICKHOUSE_URL is not repeated')
    t.match(await waitForText(read.replace('<password>', password), 'elsewhere'), /elsewhere/)
  })

  await t.test('starts every part again that was killed, and goes on', async (t) => {
    const before = await readParts(dataDir)
    t.same(Object.keys(before).sort(), PARTS)

    for (const pid of Object.values(before)) process.kill(pid, 'SIGKILL')

    for (const name of PARTS) await waitFor(() => main.output().includes(`${name} is running again`))
    const [send, read] = readCommands(main.output())
    t.match(JSON.parse(await runInShell(send.replace('hello', 'again'))), { status: 1 })
    t.match(await waitForText(read, 'again'), /again[^]*hello/)
  })

  await t.test('leaves no process behind ten seconds after SIGTERM', async (t) => {
    const pids = [...Object.values(await readParts(dataDir)), ...await listDescendants(main.child.pid ?? 0)]

    main.child.kill('SIGTERM')

    t.equal(await main.exited, 0)
    t.same(await filterRunning(pids), [])
  })
})

const nobody = await findNobody()

t.test('as an unprivileged user, when its supervisor is killed', async (t) => {
  const dataDir = await makeDataDir(t, nobody.uid)
  const PATH = `${await offerNatsServer(t)}:${process.env.PATH}`
  const settings = { ...await chooseSettings(dataDir), HOME: dataDir, XDG_CACHE_HOME: '', PATH }
  const killed = runMain(t, settings, nobody.uid)
  await killed.ready()
  const [send, read] = readCommands(killed.output())
  await runInShell(send)
  const parts = Object.values(await readParts(dataDir))

  killed.child.kill('SIGKILL')
  await killed.exited
  const next = runMain(t, settings, nobody.uid)
  await next.ready()

  await t.test('it starts again with the same keys and events', async (t) => {
    t.same(await filterRunning(parts), [])
    t.same(readCommands(next.output()), [send, read])
    t.match(await waitForText(read, 'hello'), /hello/)
  })

  await t.test('everything belongs to that user', { skip: nobody.whyNot }, async (t) => {
    const owner = (await stat(path.join(dataDir, 'postgres', 'cluster'))).uid
    t.equal(owner, nobody.uid ?? process.getuid?.())
  })

  await t.test('its parts end by themselves when nobody starts it again', async (t) => {
    const parts = Object.values(await readParts(dataDir))
    t.equal(parts.length, PARTS.length)

    next.child.kill('SIGKILL')

    await waitFor(async () => (await filterRunning(parts)).length === 0)
    t.match(await readStackState(dataDir), { kind: 'stopped', why: /was killed .*, and nothing of it runs any more: start it$/ })
  })
})

t.test('ends what it started when it is stopped before it is ready', async (t) => {
  const dataDir = await makeDataDir(t)
  const main = runMain(t, await chooseSettings(dataDir))
  await waitFor(async () => Object.keys(await readParts(dataDir)).length > 0)
  const pids = await listDescendants(main.child.pid ?? 0)

  main.child.kill('SIGINT')

  t.equal(await main.exited, 0)
  t.same(await filterRunning(pids), [])
})

t.test('says what to change when the data directory cannot be written', async (t) => {
  const dir = t.testdir({ file: '' })
  const main = runMain(t, await chooseSettings(path.join(dir, 'file', 'data')))

  t.equal(await main.exited, 1)
  t.match(main.output(), /MILLRACE_DATA_DIR/)
})

/** A folder with a nats-server that anyone may run: without one, a user without a cache fetches it at each start. */
async function offerNatsServer (t: TestContext): Promise<string> {
  const folder = await makeDataDir(t, nobody.uid)
  const file = path.join(folder, 'nats-server')
  await copyFile(await findNatsServer({ env: process.env, dataDir: folder }), file)
  await chmod(file, 0o755)
  return folder
}

/** Root tests this as another user, who needs to get at the sources; where that user cannot, as root. */
async function findNobody (): Promise<{ uid?: number, whyNot: string | false }> {
  if (!isRoot()) return { whyNot: false }
  const uid = await readNobodyUid()
  if (await canEnter(import.meta.dirname, uid)) return { uid, whyNot: false }
  return { whyNot: `only root can enter ${import.meta.dirname}` }
}

/** The two curl lines of the block, to be run by a shell. */
function readCommands (output: string): [string, string] {
  const [send, read] = output.replaceAll('\\\n', '').match(/^ +curl .*$/gm) ?? []
  return [send?.trim() ?? '', read?.trim() ?? '']
}

/** Runs the line that reads events until the event is among them. */
async function waitForText (read: string, event: string): Promise<string> {
  return await waitFor(async () => {
    const text = await runInShell(read)
    return text.includes(event) && text
  }, { everyMs: 100 }) || ''
}

/** Processes of a stack by name. */
async function readParts (dataDir: string): Promise<Record<string, number>> {
  const text = await readFile(path.join(dataDir, 'processes.json'), 'utf8').catch(() => '[]')
  const processes = JSON.parse(text) as { name: string, pid: number }[]
  return Object.fromEntries(processes.map(({ name, pid }) => [name, pid]))
}

/** Children of a process and theirs. Processes that left the family are found in the record. */
async function listDescendants (pid: number): Promise<number[]> {
  const parents = process.platform === 'linux' ? readParents() : await askParents()
  const family = [pid]
  for (const member of family) {
    for (const [child = 0, parent] of parents) if (parent === member) family.push(child)
  }
  return family.slice(1)
}

/** Each process with its parent. A bare machine has no ps. */
function readParents (): number[][] {
  return globSync('/proc/[0-9]*/stat').flatMap((file) => {
    try {
      const text = readFileSync(file, 'utf8')
      return [[Number.parseInt(text), Number(text.slice(text.lastIndexOf(')')).split(' ')[2])]]
    } catch {
      return []
    }
  })
}

async function askParents (): Promise<number[][]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid='])
  return stdout.trim().split('\n').map((line) => line.trim().split(/\s+/).map(Number))
}

async function filterRunning (pids: readonly number[]): Promise<number[]> {
  const identities = await Promise.all(pids.map(readProcessIdentity))
  return pids.filter((_, index) => identities[index] !== undefined)
}

t.test('in a folder that was deleted, says so without a stack', async (t) => {
  const folder = await makeDataDir(t)
  const main = path.join(import.meta.dirname, 'main.ts')
  const script = 'cd "$1" && rmdir "$1" && exec env -u NODE_OPTIONS "$2" "$3"'
  await t.rejects(run('sh', ['-c', script, 'sh', folder, process.execPath, main]),
    { code: 1, stderr: '\nMillrace could not start: the folder in which it was started no longer exists: change to one that does\n' })
})
