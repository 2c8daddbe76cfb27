import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { findCompileCache } from '../data-dir/find-compile-cache.ts'
import { spawnProcess, type ManagedProcess } from '../processes/spawn-process.ts'
import { waitUntilReady } from '../processes/wait-until-ready.ts'

export type TierName = 'ingest' | 'pipeline' | 'api'

export interface TierOptions {
  name: TierName
  /** Where it answers `GET /_readiness`. */
  port: number
  host: string
  /** Its whole environment. */
  env: NodeJS.ProcessEnv
  dataDir: string
  /** After this long an ending tier is killed, in milliseconds. What it had not settled is redelivered. */
  stopTimeoutMs: number
  signal: AbortSignal
  onSpawn: (child: ManagedProcess) => void
}

const ROOT = path.resolve(import.meta.dirname, '..', '..', '..')

/** Draining a full spool, or taking over a partition whose owner was killed, comes before readiness. */
const READY_TIMEOUT_MS = 60_000

/**
 * Starts one tier as a process of its own, as it runs in a cluster, and waits until it is ready.
 *
 * @throws {ServiceStartError} when it is not ready in time.
 */
export async function startTier (options: TierOptions): Promise<ManagedProcess> {
  const { name, port, host, dataDir } = options
  const child = await spawnProcess({
    name,
    command: process.execPath,
    args: [path.join(ROOT, name, 'main.ts')],
    env: { ...options.env, ...await findCompileCache(options.env, dataDir) },
    cwd: ROOT,
    logFile: path.join(dataDir, 'logs', `${name}.log`),
    stopTimeoutMs: options.stopTimeoutMs,
    onSpawn: options.onSpawn
  })
  const url = `${toClientUrl(host, port)}/_readiness`
  const isReady = async (): Promise<boolean> => await answersAs(url, child.pid)
  await waitUntilReady(child, { isReady, timeoutMs: READY_TIMEOUT_MS, signal: options.signal })
  return child
}

/** Whether the process answers that it is ready. Another one may answer on a port that both share. */
async function answersAs (url: string, pid: number): Promise<boolean> {
  // A connection of its own each time: one that is kept open leads to the same process again.
  const request = http.get(url, { agent: false, timeout: 2000 })
  request.once('timeout', () => request.destroy(new Error('no answer')))
  const [response] = await once(request, 'response') as [http.IncomingMessage]
  const answer = await json(response) as { pid?: number }
  return response.statusCode === 200 && (answer.pid === undefined || answer.pid === pid)
}

/** How a client on this machine reaches what listens on the host. */
export function toClientUrl (host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}
