import { readFileSync } from 'node:fs'
import { MillraceError, SettingsError } from '../../engines/errors.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { createLogger, type Logger } from '../../platform/logger.ts'
import { onShutdown, runProcess } from '../../platform/process-lifecycle.ts'
import { THREADS } from './engine/profiles.ts'
import { digestPassword, type LoginDigests } from './request/authenticate.ts'
import type * as ServerModule from './start-server.ts'

/**
 * The process of the embedded ClickHouse: the engine inside, ClickHouse's HTTP interface outside.
 */
runProcess('the embedded ClickHouse server', async () => {
  ensureThreads()
  const settings = loadSettings(process.env, [
    'MILLRACE_DATA_DIR', 'MILLRACE_CLICKHOUSE_PORT', 'MILLRACE_CLICKHOUSE_HOST', 'MILLRACE_LOG_LEVEL',
    'MILLRACE_CLICKHOUSE_PASSWORD', 'MILLRACE_CLICKHOUSE_ANALYST_PASSWORD', 'MILLRACE_CLICKHOUSE_MEMORY_BYTES',
    'MILLRACE_CLICKHOUSE_SEND_TIMEOUT_SECONDS'
  ])
  const logger = createLogger({ component: 'clickhouse', level: settings.MILLRACE_LOG_LEVEL })
  const isOfStack = process.argv.includes('--logins-on-stdin')
  // The stack gives digests only, and not by the environment, which is a file that the engine could read.
  const logins = isOfStack
    ? JSON.parse(readFileSync(0, 'utf8')) as LoginDigests
    : {
        millrace: digestPassword(settings.MILLRACE_CLICKHOUSE_PASSWORD),
        analyst: digestPassword(settings.MILLRACE_CLICKHOUSE_ANALYST_PASSWORD)
      }
  const host = settings.MILLRACE_CLICKHOUSE_HOST
  if (!isLoopback(host)) {
    requirePasswords(logins)
    logger.warn({ host }, 'ClickHouse listens beyond this machine, without TLS: let only trusted networks reach it, see docs/bi-tools.md')
  }
  for (const name of ['MILLRACE_CLICKHOUSE_PASSWORD', 'MILLRACE_CLICKHOUSE_ANALYST_PASSWORD'] as const) {
    if (settings[name] === '' && !isOfStack) logger.warn({ setting: name }, 'ClickHouse user has no password')
  }
  if (process.env.CONFINED_BY === 'landlock') logger.info('the kernel confines the engine to its own files')
  else logger.warn('the kernel does not confine the engine: it can read what this user can read, see docs/security.md')
  const { startServer } = await loadServer(logger)
  const server = await startServer({
    dataDir: settings.MILLRACE_DATA_DIR,
    host,
    port: settings.MILLRACE_CLICKHOUSE_PORT,
    memoryBytes: settings.MILLRACE_CLICKHOUSE_MEMORY_BYTES,
    sendTimeoutSeconds: settings.MILLRACE_CLICKHOUSE_SEND_TIMEOUT_SECONDS,
    logins,
    logger
  })
  logger.info({ port: server.port }, 'the embedded ClickHouse server is listening')
  onShutdown(logger, [{ name: 'server', run: server.close }])
})

/** What the system's loader says when it has no room for a library. */
const NO_ROOM = /failed to map segment|cannot allocate memory/i

/**
 * Loads the engine with all that uses it. It reserves far more address space than it uses memory: with too
 * little it either cannot be loaded, or ends with SIGSEGV and says nothing, so a limit is told of before.
 *
 * @throws {MillraceError} `MILLRACE_ENGINE_NO_MEMORY`; chdb itself would have one install the packages again.
 */
async function loadServer (logger: Logger): Promise<typeof ServerModule> {
  const limit = readAddressSpaceLimit()
  if (limit !== null) {
    logger.warn({ limitBytes: limit }, 'the address space of this process is limited (ulimit -v, LimitAS=): the ClickHouse engine reserves far more than it uses, ' +
      'and ends with SIGSEGV when it gets too little. Lift the limit; MILLRACE_CLICKHOUSE_MEMORY_BYTES limits memory')
  }
  try {
    return await import('./start-server.ts')
  } catch (cause) {
    if (!(cause instanceof Error) || !NO_ROOM.test(cause.message)) throw cause
    const why = limit === null ? 'the system has too little memory for it' : `its address space is limited to ${limit} bytes (ulimit -v, LimitAS=): lift that limit`
    throw new MillraceError('MILLRACE_ENGINE_NO_MEMORY', `the ClickHouse engine could not be loaded: ${why}`, { cause })
  }
}

/** In bytes; null without a limit, and where Linux does not tell. */
function readAddressSpaceLimit (): number | null {
  try {
    const [, soft] = /^Max address space +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? null : Number(soft)
  } catch {
    return null
  }
}

function isLoopback (host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

/** @throws {SettingsError} when a login that other machines could use has no password. */
function requirePasswords (logins: LoginDigests): void {
  const none = digestPassword('')
  const names = { millrace: 'MILLRACE_CLICKHOUSE_PASSWORD', analyst: 'MILLRACE_CLICKHOUSE_ANALYST_PASSWORD' } as const
  const problems = (Object.keys(names) as Array<keyof typeof names>).filter((user) => logins[user] === none)
    .map((user) => `${names[user]} must be set when MILLRACE_CLICKHOUSE_HOST is no address of this machine alone (127.0.0.1)`)
  if (problems.length > 0) throw new SettingsError(problems)
}

/**
 * Every running query occupies a thread of libuv's pool, whose size is read from the environment before this file runs.
 * So the process replaces itself once, keeping its id, with the size that it needs. Nothing that this file imports
 * loads the engine, which would then be loaded twice.
 */
function ensureThreads (): void {
  if (Number(process.env.UV_THREADPOOL_SIZE ?? 0) >= THREADS) return
  const command = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  process.execve?.(process.execPath, command, { ...process.env, UV_THREADPOOL_SIZE: String(THREADS) })
}
