import { type IncomingMessage } from 'node:http'

/** What a proxy in front passes on at most; anyone who sends more is not listening for the answer. */
const MAX_BYTES = 20_971_520
const MAX_MS = 5000

/**
 * Reads the rest of a request and forgets it. A client that is still sending does not see an answer given meanwhile:
 * the connection breaks under it, and a proxy reports the server as gone.
 */
export async function drainRequest (raw: IncomingMessage): Promise<void> {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers
  const hasBody = length !== '0' || encoding !== undefined
  if (!hasBody || raw.readableEnded || raw.destroyed) return
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const done = (): void => resolve(undefined)
  let bytes = 0
  const count = (chunk: Buffer): void => {
    bytes += chunk.length
    if (bytes > MAX_BYTES) done()
  }
  const timer = setTimeout(done, MAX_MS)
  raw.on('data', count).once('end', done).once('close', done).once('error', done)
  // Anyone who was reading may have paused it.
  raw.resume()
  await promise
  clearTimeout(timer)
  raw.off('data', count)
}
