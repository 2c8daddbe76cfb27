import { existsSync, mkdirSync, realpathSync } from 'node:fs'
import path from 'node:path'
import { digestPassword, MAIN, makeSpoolFolders, removeSpoolFolders } from 'chdb-server'
import { findCompileCache } from '../data-dir/cache-dir.ts'
import { checkRoom, ROOM_OF_START } from '../data-dir/check-data-dir.ts'
import { findMissingLibraries } from './find-missing-libraries.js'
import { startOnPort, toClientHost } from './ports.ts'
import { askHttp, type Service, type ServiceOptions, ServiceStartError, waitUntilReady } from './processes/service.ts'
import { type ManagedProcess, spawnProcess, type SpawnProcessOptions } from './processes/spawn-process.ts'

export interface ClickHouseOptions extends ServiceOptions {
  /** Password of the user `millrace`, who may do everything. */
  password: string
  /** Password of the read-only user `analyst`. */
  analystPassword: string
  /** Address it listens on. Default: 127.0.0.1. */
  host?: string
  /** Maximum memory in bytes. Default 0: a share of what there is. */
  memoryBytes?: number
  /** Lowest level of the log. Default `info`. */
  logLevel?: string
}

type Command = Pick<SpawnProcessOptions, 'command' | 'args'>

interface Confinement {
  /** Files and folders the program may read and execute, with all below. */
  read: readonly string[]
  /** Folders in which it may do everything. They must exist. */
  write: readonly string[]
}

const ROOT = path.resolve(import.meta.dirname, '..', '..')

const SCRIPT = path.join(import.meta.dirname, 'confine.pl')
const PERL = '/usr/bin/perl'

/** What the program needs of Linux: libraries, time zones, random numbers, and facts about itself. */
const SYSTEM = [
  '/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store', '/gnu/store', '/sys',
  ...['ld.so.cache', 'ld.so.conf', 'localtime', 'timezone', 'nsswitch.conf', 'hosts', 'host.conf', 'resolv.conf', 'passwd', 'group', 'ssl/openssl.cnf', 'alternatives']
    .map((name) => `/etc/${name}`),
  // `/proc/self` of the process that is to be confined; other processes are out of reach.
  ...['self', 'sys', 'meminfo', 'stat', 'cpuinfo', 'uptime', 'loadavg', 'version', 'filesystems', 'vmstat', 'diskstats'].map((name) => `/proc/${name}`),
  '/dev/zero', '/dev/random', '/dev/urandom'
]

const DATABASE = 'millrace'

/** Loading the engine takes a second or two, attaching tables with thousands of parts some more. */
const READY_TIMEOUT_MS = 180_000

/**
 * Starts the ClickHouse engine behind its HTTP server, with its tables in `<data directory>/clickhouse`.
 *
 * @throws {ServiceStartError} when it does not answer `/ping` in time, and when this machine lacks its libraries.
 * @throws {MillraceError} `MILLRACE_DATA_DIR_FULL`: the repairs of a start need room themselves.
 */
export async function startClickHouse (options: ClickHouseOptions): Promise<Service> {
  const dataDir = path.resolve(options.dataDir)
  await checkRoom(dataDir, ROOM_OF_START)
  refuseMissingLibraries()
  const { NODE_COMPILE_CACHE } = await findCompileCache(process.env, dataDir)
  // Of its own: the engine writes there, and other tiers run what they find in theirs.
  const compileCache = path.resolve(NODE_COMPILE_CACHE!, 'clickhouse')
  const folders = { read: readable(), write: makeFolders(dataDir, compileCache) }
  return await startOnPort(options.port, async (port) => {
    const program = { command: process.execPath, args: [MAIN, ...argumentsOf({ ...options, dataDir, port })] }
    const confined = confineCommand(program, folders)
    const env = { ...pickSystemVariables(process.env), NODE_COMPILE_CACHE: compileCache }
    const start = async (command: Command): Promise<ManagedProcess> =>
      await startServer(command, { ...options, dataDir, port }, env)
    const child = confined === undefined
      ? await start(program)
      : await startConfined(() => start(confined), () => start(program))
    const login = `millrace:${encodeURIComponent(options.password)}`
    return { ...child, port, url: `http://${login}@${toClientHost(options.host)}:${port}/${DATABASE}` }
  })
}

/** Where the engine is not installed, or npm has none for this platform, the server says so. */
function refuseMissingLibraries (): void {
  const installed = findPackageFolders(ROOT).map((folder) => path.join(folder, '@chdb', `lib-${process.platform}-${process.arch}-gnu`, 'chdb_node.node'))
  const engine = installed.find((file) => existsSync(file))
  const missing = engine === undefined ? null : findMissingLibraries(engine)
  if (missing !== null) throw new ServiceStartError(missing)
}

function argumentsOf ({ dataDir, port, host, logLevel, memoryBytes }: ClickHouseOptions): string[] {
  const given = {
    'data-dir': dataDir,
    port,
    host,
    database: DATABASE,
    'log-level': logLevel,
    'memory-bytes': memoryBytes
  }
  const named = Object.entries(given).flatMap(([name, value]) => value === undefined ? [] : [`--${name}=${value}`])
  return ['--logins-on-stdin', ...named]
}

/** Starts it unconfined, which its log says, when it cannot start confined: it may need files that we do not know. */
async function startConfined<P> (confined: () => Promise<P>, unconfined: () => Promise<P>): Promise<P> {
  try {
    return await confined()
  } catch (error) {
    if (!(error instanceof EndedBeforeReadyError)) throw error
    return await unconfined().catch(() => { throw error })
  }
}

/** The server ended by itself; its log says why. */
class EndedBeforeReadyError extends ServiceStartError {}

async function startServer (
  { command, args }: Command, options: ClickHouseOptions, env: NodeJS.ProcessEnv
): Promise<ManagedProcess> {
  const { dataDir, port } = options
  const child = await spawnProcess({
    name: 'clickhouse',
    command,
    args,
    env,
    cwd: dataDir,
    input: JSON.stringify({
      millrace: digestPassword(options.password), analyst: digestPassword(options.analystPassword)
    }),
    logFile: path.join(dataDir, 'logs', 'clickhouse.log'),
    stopTimeoutMs: options.stopTimeoutMs,
    onSpawn: options.onSpawn
  })
  void child.exited.then(() => removeSpoolFolders(dataDir))
  const isReady = async (): Promise<boolean> => (await askHttp(`http://${toClientHost(options.host)}:${port}/ping`)).status === 200
  try {
    await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
    return child
  } catch (error) {
    const { requested } = await child.exited
    if (requested || !(error instanceof ServiceStartError)) throw error
    throw new EndedBeforeReadyError(error.message, error.cause)
  }
}

/** Keeps the settings of other processes from this one. */
function pickSystemVariables (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TZ', 'TMPDIR', 'UV_THREADPOOL_SIZE']
  return Object.fromEntries(names.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]]))
}

/**
 * The code of the server, and the packages that it finds from there. Not all of Millrace: the data directory is often
 * in its folder.
 */
function readable (): string[] {
  return ['package.json', 'chdb-server'].map((name) => path.join(ROOT, name))
    .concat(findPackageFolders(ROOT), path.dirname(realpathSync(process.execPath)))
}

/** Our own `node_modules`; as a package, also those that we are installed into. */
function findPackageFolders (folder: string): string[] {
  const found = path.join(folder, 'node_modules')
  const above = path.dirname(folder)
  return [...existsSync(found) ? [found] : [], ...above === folder ? [] : findPackageFolders(above)]
}

/** Makes the folders that the server writes to, because it can make none beside them. */
function makeFolders (dataDir: string, compileCache: string): string[] {
  const folders = ['clickhouse', 'clickhouse-backups'].map((name) => path.join(dataDir, name))
  for (const folder of folders) mkdirSync(folder, { recursive: true })
  return [...folders, ...makeSpoolFolders(dataDir), ...makeIfAllowed(compileCache)]
}

/** Without a compile cache the server starts slower, no more: the operator's may belong to another user. */
function makeIfAllowed (folder: string): string[] {
  try {
    mkdirSync(folder, { recursive: true })
    return [folder]
  } catch {
    return []
  }
}

/**
 * The command that runs a program confined by the kernel: it can open only the named paths, reach no other process, and
 * connect to no TCP port. The process keeps its id. See `confine.pl`, which runs it unconfined where the kernel cannot.
 *
 * @returns undefined where it cannot be tried: not Linux, or no Perl.
 */
function confineCommand (program: Command, { read, write }: Confinement): Command | undefined {
  if (process.platform !== 'linux' || !existsSync(PERL)) return undefined
  const rules = [...[...SYSTEM, ...read].map((file) => `r:${file}`), ...['/dev/null', ...write].map((file) => `w:${file}`)]
  return { command: PERL, args: [SCRIPT, ...rules, '--', program.command, ...program.args] }
}
