/** What all services have in common: their options, and the wait until they answer. */
import { open } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../../engines/errors.ts'
import type { ManagedProcess, SpawnProcessOptions } from './spawn-process.ts'

export interface Service extends ManagedProcess {
  /** What `NATS_URL`, `DATABASE_URL` or `CLICKHOUSE_URL` is set to in order to use it, password included. */
  readonly url: string
  readonly port: number
}

export interface ServiceOptions extends Pick<SpawnProcessOptions, 'onSpawn' | 'stopTimeoutMs'> {
  /** Keeps its files in a folder of its own below; several stacks use several folders. */
  dataDir: string
  /** Port on 127.0.0.1; 0 takes a free one. */
  port: number
  /** Cancels the start and the wait for it: what was started is stopped, and the start rejects. */
  signal?: AbortSignal | undefined
}

interface WaitUntilReadyOptions extends Pick<ServiceOptions, 'signal'> {
  /** Asks once. A rejection counts as "not yet", except for a `ServiceStartError`, which no waiting repairs. */
  isReady: () => Promise<boolean>
  timeoutMs: number
}

const POLL_MS = 50
const LOG_TAIL_BYTES = 3000
const ASK_TIMEOUT_MS = 2000

/** A process of the stack ended or hung before it was ready. The message carries its last log lines. */
export class ServiceStartError extends MillraceError {
  constructor (message: string, cause?: unknown) {
    super('MILLRACE_SERVICE_START_FAILED', message, cause === undefined ? {} : { cause })
    this.name = 'ServiceStartError'
  }
}

/**
 * Waits until a process that was just started is ready, and stops it when it does not get ready.
 *
 * @throws {ServiceStartError} when the process ended, or did not answer in time.
 */
export async function waitUntilReady (child: ManagedProcess, options: WaitUntilReadyOptions): Promise<void> {
  const { isReady, timeoutMs, signal } = options
  const outcome: { ended?: string } = {}
  void child.exited.then(({ code, signal }) => { outcome.ended = `ended with ${signal ?? `code ${code}`}` })
  const deadline = performance.now() + timeoutMs
  let lastError: unknown
  while (outcome.ended === undefined && performance.now() < deadline && signal?.aborted !== true) {
    try {
      if (await isReady()) return
    } catch (error) {
      lastError = error
      if (error instanceof ServiceStartError) break
    }
    await delay(POLL_MS)
  }
  if (signal?.aborted === true || lastError instanceof ServiceStartError) {
    await child.stop()
    throw lastError instanceof ServiceStartError ? lastError : new ServiceStartError(`${child.name}: its start was cancelled`)
  }
  const what = outcome.ended ?? `was not ready within ${timeoutMs / 1000} s`
  await child.stop()
  const tail = await readLogTail(child)
  const said = tail === '' ? `It wrote nothing to its log ${child.logFile}` : `Last lines of its log ${child.logFile}:\n${tail}`
  throw new ServiceStartError(`${child.name} ${what}. ${said}`, lastError)
}

/**
 * Asks a service by HTTP, on a connection of its own: one that is kept open leads to the same process again where two
 * share a port. Written by hand, because importing `node:http` takes 20 MB more (Node 26), and a supervisor holds
 * them for years.
 *
 * @throws when there is no answer within two seconds.
 */
export async function askHttp (url: string): Promise<{ status: number, body: string }> {
  const { hostname, host, port, pathname } = new URL(url)
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), timeout: ASK_TIMEOUT_MS })
  socket.once('timeout', () => socket.destroy(new Error(`no answer within ${ASK_TIMEOUT_MS / 1000} s`)))
  // The version in which the answer ends with the connection.
  socket.write(`GET ${pathname} HTTP/1.0\r\nHost: ${host}\r\n\r\n`)
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  const [, status, body] = /^HTTP\/\S+ (\d{3})[^]*?\r\n\r\n([^]*)$/.exec(Buffer.concat(chunks).toString('utf8')) ?? []
  if (status === undefined || body === undefined) throw new Error('the answer is not HTTP')
  return { status: Number(status), body }
}

/** The last log lines of this process since its start; empty without any. */
async function readLogTail ({ logFile, logStart }: ManagedProcess): Promise<string> {
  try {
    await using log = await open(logFile)
    const { size } = await log.stat()
    // Emptied by the rotation meanwhile.
    const own = size < logStart ? 0 : logStart
    const start = Math.max(own, size - LOG_TAIL_BYTES)
    const { buffer, bytesRead } = await log.read(Buffer.alloc(LOG_TAIL_BYTES), 0, LOG_TAIL_BYTES, start)
    const text = buffer.toString('utf8', 0, bytesRead)
    return start === own ? text : text.slice(text.indexOf('\n') + 1)
  } catch {
    // The log only helps to explain another failure; that one must not be hidden by this.
    return ''
  }
}
