import path from 'node:path'
import { findCompileCache } from '../data-dir/find-compile-cache.ts'
import { startOnPort } from '../processes/pick-free-port.ts'
import { type Service, type ServiceOptions } from './service.ts'
import { spawnProcess } from '../processes/spawn-process.ts'
import { waitUntilReady } from '../processes/wait-until-ready.ts'

const FRONT = path.resolve(import.meta.dirname, '..', 'clickhouse-front', 'main.ts')

/** Loading the engine takes a second or two, attaching tables with thousands of parts some more. */
const READY_TIMEOUT_MS = 60_000

/** The database of Millrace's tables. */
const DATABASE = 'millrace'

export interface ClickHouseOptions extends ServiceOptions {
  /** Password of the user `millrace`, who may do everything. */
  password: string
  /** Password of the read-only user `analyst`. */
  analystPassword: string
  /** Lowest level of the log. Default `info`. */
  logLevel?: string
}

/**
 * Starts the ClickHouse engine behind its HTTP front, with its tables in `<data directory>/clickhouse`.
 *
 * @throws {ServiceStartError} when it does not answer `/ping` in time.
 */
export async function startClickHouse (options: ClickHouseOptions): Promise<Service> {
  const dataDir = path.resolve(options.dataDir)
  const compileCache = await findCompileCache(process.env, dataDir)
  return await startOnPort(options.port, async (port) => {
    const child = await spawnProcess({
      name: 'clickhouse',
      command: process.execPath,
      args: [FRONT],
      env: {
        ...pickSystemVariables(process.env),
        ...compileCache,
        MILLRACE_CLICKHOUSE_PORT: String(port),
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_CLICKHOUSE_PASSWORD: options.password,
        MILLRACE_CLICKHOUSE_ANALYST_PASSWORD: options.analystPassword,
        MILLRACE_LOG_LEVEL: options.logLevel ?? 'info'
      },
      cwd: dataDir,
      logFile: path.join(dataDir, 'logs', 'clickhouse.log'),
      stopTimeoutMs: options.stopTimeoutMs,
      onSpawn: options.onSpawn
    })
    const isReady = async (): Promise<boolean> => await answersPing(port)
    await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
    const login = `millrace:${encodeURIComponent(options.password)}`
    return { ...child, port, url: `http://${login}@127.0.0.1:${port}/${DATABASE}` }
  })
}

/** Settings of Millrace that are meant for other processes stay with those. */
function pickSystemVariables (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TZ', 'TMPDIR', 'UV_THREADPOOL_SIZE']
  return Object.fromEntries(names.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]]))
}

async function answersPing (port: number): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${port}/ping`, { signal: AbortSignal.timeout(2000) })
  await response.body?.cancel()
  return response.status === 200
}
