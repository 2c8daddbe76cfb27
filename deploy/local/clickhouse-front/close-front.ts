import { once } from 'node:events'
import { type Server } from 'node:http'
import { type Front } from './front.ts'

/** The process promises to be gone within three seconds; the engine needs some of them to close its tables. */
const INSERTS_MAY_TAKE_MS = 2000
const QUERIES_MAY_TAKE_MS = 300

/**
 * Stops the front: no new requests, reads are cancelled, running inserts may end.
 *
 * An insert that takes longer is cut off as by kill -9: its client gets no answer, and repeats it with its token.
 */
export async function closeFront (front: Front, server: Server): Promise<void> {
  front.closing = true
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  front.running.stopReads()
  const ended = await endsWithin(INSERTS_MAY_TAKE_MS, () => front.running.size === 0)
  if (!ended) front.logger.warn({ queries: front.running.size }, 'stopping although queries still run')
  server.closeAllConnections()
  await Promise.race([closed, pause(QUERIES_MAY_TAKE_MS)])
  front.named.close()
  await Promise.race([front.queryLog.close(), pause(QUERIES_MAY_TAKE_MS)])
  for (const pool of Object.values(front.pools)) pool.close()
  front.spool.close()
  if (ended) await front.engine.close()
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
