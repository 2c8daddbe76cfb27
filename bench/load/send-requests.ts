import net from 'node:net'

export interface LoadResult {
  requests: number
  failed: number
  /** Wall-clock time from the first send to the last answer, in milliseconds. */
  durationMs: number
  /** Milliseconds by request, unordered. */
  latenciesMs: number[]
}

/**
 * Sends prepared HTTP requests over keep-alive connections, one at a time on each, and reads the answers.
 *
 * It speaks HTTP on bare sockets because on a small machine a full client would cost as much as the server under
 * test. Answers must carry `content-length`.
 *
 * @param requests  Whole requests as bytes, each sent once, in order.
 * @param options.ratePerSecond  Open loop at this rate over all connections; absent: as fast as answers come.
 */
export async function sendRequests (requests: readonly Buffer[], options: {
  port: number
  connections: number
  ratePerSecond?: number
}): Promise<LoadResult> {
  const result: LoadResult = { requests: 0, failed: 0, durationMs: 0, latenciesMs: [] }
  let next = 0
  const startedAt = performance.now()
  const take = (): number => next < requests.length ? next++ : -1

  await Promise.all(Array.from({ length: options.connections }, async () => {
    const connection = await openConnection(options.port)
    for (let index = take(); index !== -1; index = take()) {
      if (options.ratePerSecond !== undefined) {
        const dueMs = index / options.ratePerSecond * 1000 - (performance.now() - startedAt)
        if (dueMs > 0) await new Promise((resolve) => setTimeout(resolve, dueMs))
      }
      const sentAt = performance.now()
      const status = await connection.send(requests[index] as Buffer)
      result.latenciesMs.push(performance.now() - sentAt)
      result.requests++
      if (status !== 200) result.failed++
    }
    connection.close()
  }))
  result.durationMs = performance.now() - startedAt
  return result
}

interface Connection {
  send (request: Buffer): Promise<number>
  close (): void
}

async function openConnection (port: number): Promise<Connection> {
  const socket = net.connect(port, '127.0.0.1')
  socket.setNoDelay(true)
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  let received = ''
  let answer: ((status: number) => void) | undefined
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1')
    const headEnd = received.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const length = Number(/content-length: *(\d+)/i.exec(received)?.[1] ?? 0)
    if (received.length < headEnd + 4 + length) return
    const status = Number(received.slice(9, 12))
    received = received.slice(headEnd + 4 + length)
    answer?.(status)
  })
  const giveUp = (): void => answer?.(0)
  socket.on('error', giveUp)
  socket.on('close', giveUp)
  return {
    send: async (request) => await new Promise((resolve) => {
      answer = resolve
      if (socket.destroyed) resolve(0)
      else socket.write(request)
    }),
    close: () => { socket.destroy() }
  }
}

/** A whole POST request as bytes. */
export function buildPost (path: string, body: Buffer, headers: Record<string, string> = {}): Buffer {
  const lines = Object.entries({
    host: '127.0.0.1', 'content-type': 'application/json', 'content-length': String(body.length), ...headers
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), body])
}

/**
 * Sends JSON bodies as SDKs do, by `fetch`, with limited concurrency. The client costs several times as much as the
 * server, so this shows what a client notices rather than what the server can do.
 */
export async function sendByFetch (url: string, bodies: readonly string[], concurrency: number): Promise<LoadResult> {
  const result: LoadResult = { requests: 0, failed: 0, durationMs: 0, latenciesMs: [] }
  const headers = { 'content-type': 'application/json' }
  let next = 0
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: concurrency }, async () => {
    for (let index = next++; index < bodies.length; index = next++) {
      const sentAt = performance.now()
      const response = await fetch(url, { method: 'POST', headers, body: bodies[index] as string })
      await response.arrayBuffer()
      result.latenciesMs.push(performance.now() - sentAt)
      result.requests++
      if (response.status !== 200) result.failed++
    }
  }))
  result.durationMs = performance.now() - startedAt
  return result
}
