/** The npm package as its users have it: packed, installed, started, used, stopped. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { PostHog } from 'posthog-node'
import type { Credentials, StackAddresses } from '../../embedded/data-dir/stack-access.ts'
import { freePorts } from '../support/local-ports.ts'
import { withoutSettings } from '../support/environments.ts'
import { PATIENCE_MS } from '../support/wait-for.ts'

export const ROOT = path.join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

/** A user of the package: its folder and user id. */
export interface PackageUser {
  /** Empty but for the package; data goes to `.millrace` in it. */
  folder: string
  env: NodeJS.ProcessEnv
  /** Only root can become another user. */
  uid?: number
  /** How long it may take until it is ready. */
  readyMs?: number
}

/** What a first session with the package showed. */
export interface FirstSession {
  /** What `millrace start` printed. */
  printed: string
  exitCode: number | null
  /** Rows of the event that an SDK sent. */
  rows: { event: string, distinct_id: string, properties: string }[]
  /** First lines of the logs, by name of the process. */
  logs: Record<string, string>
}

/** Runs `npm pack`; resolves with the path of the package. */
export async function packPackage (folder: string): Promise<string> {
  const args = ['pack', '--silent', '--pack-destination', folder]
  const { stdout } = await run('npm', args, { cwd: ROOT, env: withoutSettings(process.env) })
  return path.join(folder, stdout.trim().split('\n').at(-1) ?? '')
}

/** Unpacks a package where npm would install it; its dependencies must be found in a `node_modules` above. */
export async function unpackPackage (file: string, folder: string): Promise<string> {
  const installed = path.join(folder, 'node_modules', 'millrace')
  await mkdir(installed, { recursive: true })
  await run('tar', ['--extract', '--file', file, '--directory', installed, '--strip-components=1'])
  return installed
}

/** The first `node` on PATH that is not of `node_modules`: the machine's own, which may be too old for the sources. */
export async function findMachineNode (): Promise<string> {
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    const file = path.join(folder, 'node')
    if (!folder.includes('node_modules') && await access(file).then(() => true, () => false)) return file
  }
  return process.execPath
}

/**
 * Starts Millrace on free ports, sends an event with posthog-node, reads it back as the analyst, stops it.
 *
 * @param command  What starts it, such as `['npx', 'millrace', 'start']`.
 * @param user     Its folder gets `.millrace`, as no data directory is named.
 */
export async function tryFirstSession (
  [command, ...args]: readonly [string, ...string[]], { folder, env, uid, readyMs = PATIENCE_MS }: PackageUser
): Promise<FirstSession> {
  const [port, clickhousePort, natsPort, postgresPort] = await freePorts(4)
  let printed = ''
  const child = spawn(command, args, {
    cwd: folder,
    env: {
      ...env,
      MILLRACE_PORT: String(port),
      MILLRACE_CLICKHOUSE_PORT: String(clickhousePort),
      MILLRACE_NATS_PORT: String(natsPort),
      MILLRACE_POSTGRES_PORT: String(postgresPort)
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(uid === undefined ? {} : { uid, gid: uid })
  })
  for (const output of [child.stdout, child.stderr]) output.on('data', (chunk: Buffer) => { printed += chunk.toString() })
  const exited = once(child, 'close').then(([code]) => code as number | null)
  try {
    const deadline = Date.now() + readyMs
    while (!printed.includes('Millrace is ready')) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error(`not ready; it printed:\n${printed}`)
      await delay(50)
    }
    const dataDir = path.join(folder, '.millrace')
    const { projectApiKey, analystPassword } = await readJson<Credentials>(path.join(dataDir, 'credentials.json'))
    const { baseUrl } = await readJson<StackAddresses>(path.join(dataDir, 'addresses.json'))
    await sendEvent(baseUrl, projectApiKey)
    const rows = await readEvents(`http://127.0.0.1:${clickhousePort}/?database=millrace`, analystPassword)
    const logs = await readLogs(dataDir)
    const exitCode = await stop()
    return { printed, rows, logs, exitCode }
  } finally {
    await stop()
  }

  async function stop (): Promise<number | null> {
    if (child.exitCode === null) child.kill('SIGTERM')
    return await exited
  }
}

async function sendEvent (host: string, key: string): Promise<void> {
  const client = new PostHog(key, { host })
  client.capture({ distinctId: 'first-user', event: 'installed', properties: { from: 'npm' } })
  await client.shutdown()
}

async function readEvents (url: string, password: string): Promise<FirstSession['rows']> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`analyst:${password}`).toString('base64')}` },
      body: 'SELECT event, distinct_id, properties FROM events FORMAT JSON'
    })
    const { data } = await response.json() as { data: FirstSession['rows'] }
    if (data.length > 0 || Date.now() > deadline) return data
    await delay(100)
  }
}

async function readLogs (dataDir: string): Promise<Record<string, string>> {
  const names = ['clickhouse', 'ingest', 'pipeline', 'api']
  const texts = await Promise.all(names.map(async (name) => await readFile(path.join(dataDir, 'logs', `${name}.log`), 'utf8')))
  return Object.fromEntries(names.map((name, index) => [name, texts[index]!]))
}

async function readJson<T> (file: string): Promise<T> {
  return JSON.parse(await readFile(file, 'utf8')) as T
}
