/** The process of the server: the engine inside, ClickHouse's HTTP interface outside. */
import { readFileSync } from 'node:fs'
import { THREADS } from './engine/profiles.ts'
import { HeldServer } from './http/held-server.ts'
import { createLogger, type Logger } from './json-log.ts'
import { findOpenLogins, isLoopback, type Options, readOptions, StartError, USAGE } from './options.ts'
import { isReplacement } from './restart.ts'
import manifest from './package.json' with { type: 'json' }
import type * as ServerModule from './start-server.ts'

/** Far more than an orderly end takes. */
const SHUTDOWN_TIMEOUT_MS = 8000

/** What the system's loader says when it has no room for a library. */
const NO_ROOM = /failed to map segment|cannot allocate memory/i

process.on('unhandledRejection', (reason) => fail('stopped on an unhandled error', reason))
process.on('uncaughtException', (error) => fail('stopped on an unhandled error', error))

ensureThreads()
try {
  const options = readOptions(process.argv.slice(2), process.env)
  if (options === 'help') process.stdout.write(USAGE)
  else if (options === 'version') process.stdout.write(`${manifest.version}\n`)
  else await run(options)
} catch (error) {
  fail('could not start', error)
}

async function run (options: Options): Promise<void> {
  const logger = createLogger(options.logLevel)
  warnOf(options, logger)
  const http = new HeldServer()
  // Its clients know the port.
  if (isReplacement()) await http.listen(options)
  const { startServer } = await loadServer(logger)
  const server = await startServer({ ...options, http, logger })
  logger.info({ host: options.host, port: server.port }, 'chdb-server is listening')
  let isStopping = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (isStopping) return
      isStopping = true
      logger.info({ signal }, 'shutting down')
      setTimeout(() => fail('did not shut down cleanly', `gave up after ${SHUTDOWN_TIMEOUT_MS} ms`), SHUTDOWN_TIMEOUT_MS).unref()
      server.close().then(() => process.exit(0), (error: unknown) => fail('did not shut down cleanly', error))
    })
  }
}

/** Says what a careful owner would want to be different. */
function warnOf ({ host, logins }: Options, logger: Logger): void {
  if (!isLoopback(host)) logger.warn({ host }, 'listening beyond this machine without TLS: let only trusted networks reach it')
  for (const user of findOpenLogins(logins)) logger.warn({ user }, 'user has no password')
  if (process.env.CONFINED_BY === 'landlock') logger.info({}, 'the kernel confines the engine to its own files')
  else logger.warn({}, 'the kernel does not confine the engine: it can read what the user of this process can read')
}

function fail (what: string, error: unknown): never {
  // A StartError says what to do; any other needs its stack trace to be found.
  const why = error instanceof StartError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`chdb-server ${what}: ${why}\n`)
  process.exit(1)
}

/**
 * Loads the engine with all that uses it. It reserves far more address space than it uses memory: with too
 * little it either cannot be loaded, or ends with SIGSEGV and says nothing, so a limit is told of before.
 *
 * @throws {StartError} where there is no room for it; chdb itself would have one install the packages again.
 */
async function loadServer (logger: Logger): Promise<typeof ServerModule> {
  const limit = readAddressSpaceLimit()
  if (limit !== null) {
    logger.warn({ limitBytes: limit }, 'the address space of this process is limited (ulimit -v, LimitAS=): the ClickHouse engine reserves far more than it uses, ' +
      'and ends with SIGSEGV when it gets too little. Lift the limit; --memory-bytes limits memory')
  }
  try {
    return await import('./start-server.ts')
  } catch (cause) {
    if (!(cause instanceof Error) || !NO_ROOM.test(cause.message)) throw cause
    const why = limit === null ? 'the system has too little memory for it' : `its address space is limited to ${limit} bytes (ulimit -v, LimitAS=): lift that limit`
    throw new StartError(`the ClickHouse engine could not be loaded: ${why}`, { cause })
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
