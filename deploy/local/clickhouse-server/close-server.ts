import { once } from 'node:events'
import { type Server } from 'node:http'
import { type ServerParts } from './server-parts.ts'

/** The process promises to be gone within three seconds; the engine needs some of them to close its tables. */
const INSERTS_MAY_TAKE_MS = 2000
const QUERIES_MAY_TAKE_MS = 300

/**
 * Stops the server: no new requests, reads are cancelled, running inserts may end.
 *
 * An insert that takes longer is cut off as by kill -9: its client gets no answer, and repeats it with its token.
 */
export async function closeServer (parts: ServerParts, server: Server): Promise<void> {
  parts.closing = true
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  parts.running.stopReads()
  const ended = await endsWithin(INSERTS_MAY_TAKE_MS, () => parts.running.size === 0)
  if (!ended) parts.logger.warn({ queries: parts.running.size }, 'stopping although queries still run')
  server.closeAllConnections()
  await Promise.race([closed, pause(QUERIES_MAY_TAKE_MS)])
  parts.named.close()
  await Promise.race([parts.queryLog.close(), pause(QUERIES_MAY_TAKE_MS)])
  for (const pool of Object.values(parts.pools)) pool.close()
  parts.spool.close()
  if (ended) await parts.engine.close()
}

async function endsWithin (limitMs: number, isOver: () => boolean): Promise<boolean> {
  const end = performance.now() + limitMs
  while (!isOver()) {
    if (performance.now() > end) return false
    await pause(10)
  }
  return true
}

async function pause (ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}
