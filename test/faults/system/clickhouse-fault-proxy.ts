import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * What happens to an insert on its way to ClickHouse:
 * - `answer`: ClickHouse never sees it, the client gets this error;
 * - `store and answer`: ClickHouse stores it, the client gets this error, as when a shard broke off after that;
 * - `reset`: ClickHouse never sees it, the connection is reset;
 * - `cut request`: ClickHouse gets half of its bytes, then both connections are reset;
 * - `lose answer`: ClickHouse stores it, but the connection is reset before the answer arrives. The hardest one: the
 *   client cannot know whether its rows are stored;
 * - `cut answer`: ClickHouse stores it, and the connection is reset in the middle of the answer's first line.
 */
export type InsertFault =
  | { kind: 'answer' | 'store and answer', code: number, name: string, text: string }
  | { kind: 'reset' | 'cut request' | 'lose answer' | 'cut answer' }

/** @returns the fault for an insert of this size with this token; undefined lets it pass. */
export type ChooseInsertFault = (bytes: number, token: string) => InsertFault | undefined

export interface ClickHouseFaultProxy {
  /** Takes the place of ClickHouse's URL. */
  url: string
  set (choose: ChooseInsertFault | undefined): void
  /** Inserts spoiled so far. */
  injected: number
  close (): Promise<void>
}

/** Puts an HTTP proxy in front of a real ClickHouse that can spoil inserts; queries always pass. */
export async function startClickHouseFaultProxy (clickhouseUrl: string): Promise<ClickHouseFaultProxy> {
  const target = new URL(clickhouseUrl)
  const agent = new http.Agent({ keepAlive: true })
  let choose: ChooseInsertFault | undefined

  const server = http.createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://clickhouse')
    const fault = isInsert(request, searchParams)
      ? choose?.(Number(request.headers['content-length'] ?? 0), searchParams.get('insert_deduplication_token') ?? '')
      : undefined
    if (fault !== undefined) handle.injected++
    if (fault?.kind === 'answer') {
      request.resume()
      request.once('end', () => { answerError(response, fault) })
    } else if (fault?.kind === 'reset') request.socket.resetAndDestroy()
    else pass(request, response, fault)
  })
  // An idle connection that the server closes while the client sends a query would look like a fault of ours.
  server.keepAliveTimeout = 120_000

  function pass (request: http.IncomingMessage, response: http.ServerResponse, fault?: InsertFault): void {
    const upstream = http.request({
      host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers,
      agent
    }, (answer) => {
      if (fault?.kind === 'store and answer') {
        answer.resume()
        answer.once('end', () => { answerError(response, fault) })
        return
      }
      if (fault?.kind === 'lose answer' || fault?.kind === 'cut answer') {
        answer.resume()
        answer.once('end', () => {
          if (fault.kind === 'cut answer') request.socket.write(`HTTP/1.1 ${answer.statusCode} O`)
          request.socket.resetAndDestroy()
        })
        return
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    upstream.on('error', () => { if (!request.socket.destroyed) request.socket.resetAndDestroy() })
    // The client gave up, or is gone.
    response.on('close', () => { if (!response.writableFinished) upstream.destroy() })
    if (fault?.kind === 'cut request') cutRequest(request, upstream)
    else request.pipe(upstream)
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(clickhouseUrl)
  url.port = String((server.address() as AddressInfo).port)
  const handle: ClickHouseFaultProxy = {
    url: url.href,
    injected: 0,
    set (next) { choose = next },
    async close () {
      server.closeAllConnections()
      agent.destroy()
      server.close()
      await once(server, 'close')
    }
  }
  return handle
}

function isInsert ({ method }: http.IncomingMessage, parameters: URLSearchParams): boolean {
  return method === 'POST' && /^\s*insert\b/i.test(parameters.get('query') ?? '')
}

function answerError (
  response: http.ServerResponse, { code, name, text }: Extract<InsertFault, { code: number }>
): void {
  response.writeHead(500, { 'content-type': 'text/plain', 'x-clickhouse-exception-code': String(code) })
    .end(`Code: ${code}. DB::Exception: ${text} (${name})\n`)
}

function cutRequest (request: http.IncomingMessage, upstream: http.ClientRequest): void {
  const half = Number(request.headers['content-length'] ?? 0) >> 1
  let sent = 0
  request.on('data', (chunk: Buffer) => {
    const part = chunk.subarray(0, Math.max(half - sent, 0))
    sent += chunk.length
    upstream.write(part)
    if (sent < half) return
    upstream.socket?.resetAndDestroy()
    upstream.destroy()
    request.socket.resetAndDestroy()
  })
}
