import { readFileSync } from 'node:fs'
import { loadSettings } from '../../../platform/load-settings.ts'
import { createLogger } from '../../../platform/logger.ts'
import { onShutdown, runProcess } from '../../../platform/process-lifecycle.ts'
import { THREADS } from './engine/profiles.ts'
import { digestPassword, type LoginDigests } from './request/authenticate.ts'

/**
 * The process of the embedded ClickHouse: the engine inside, ClickHouse's HTTP interface outside.
 */
runProcess('the embedded ClickHouse server', async () => {
  ensureThreads()
  const settings = loadSettings(process.env, [
    'MILLRACE_DATA_DIR', 'MILLRACE_CLICKHOUSE_PORT', 'MILLRACE_LOG_LEVEL',
    'MILLRACE_CLICKHOUSE_PASSWORD', 'MILLRACE_CLICKHOUSE_ANALYST_PASSWORD'
  ])
  const logger = createLogger({ component: 'clickhouse', level: settings.MILLRACE_LOG_LEVEL })
  const isOfStack = process.argv.includes('--logins-on-stdin')
  for (const name of ['MILLRACE_CLICKHOUSE_PASSWORD', 'MILLRACE_CLICKHOUSE_ANALYST_PASSWORD'] as const) {
    if (settings[name] === '' && !isOfStack) logger.warn({ setting: name }, 'ClickHouse user has no password')
  }
  if (process.env.CONFINED_BY === 'landlock') logger.info('the kernel confines the engine to its own files')
  else logger.warn('the kernel does not confine the engine: it can read what this user can read, see docs/security.md')
  const { startServer } = await import('./start-server.ts')
  const server = await startServer({
    dataDir: settings.MILLRACE_DATA_DIR,
    port: settings.MILLRACE_CLICKHOUSE_PORT,
    // The stack gives digests only, and not by the environment, which is a file that the engine could read.
    logins: isOfStack
      ? JSON.parse(readFileSync(0, 'utf8')) as LoginDigests
      : {
          millrace: digestPassword(settings.MILLRACE_CLICKHOUSE_PASSWORD),
          analyst: digestPassword(settings.MILLRACE_CLICKHOUSE_ANALYST_PASSWORD)
        },
    logger
  })
  logger.info({ port: server.port }, 'the embedded ClickHouse server is listening')
  onShutdown(logger, [{ name: 'server', run: server.close }])
})

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
