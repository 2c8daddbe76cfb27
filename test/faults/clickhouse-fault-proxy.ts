import { once } from 'node:events'
import http from 'node:http'
import { type AddressInfo } from 'node:net'

/**
 * What happens to an insert on its way to ClickHouse:
 * - `answer`: ClickHouse never sees it, the client gets this error;
 * - `lose answer`: ClickHouse stores it, but the connection is reset before the answer arrives. The hardest one: the
 *   client cannot know whether its rows are stored.
 */
export type InsertFault = { kind: 'answer', code: number, name: string, text: string } | { kind: 'lose answer' }

export interface ClickHouseFaultProxy {
  /** Takes the place of ClickHouse's URL. */
  url: string
  /** Every insert for which `choose` returns a fault gets it; undefined lets all pass. */
  set (choose: (() => InsertFault | undefined) | undefined): void
  /** Faults injected so far. */
  injected: number
  close (): Promise<void>
}

/** Puts an HTTP proxy in front of a real ClickHouse that can spoil inserts; queries always pass. */
export async function startClickHouseFaultProxy (clickhouseUrl: string): Promise<ClickHouseFaultProxy> {
  const target = new URL(clickhouseUrl)
  const agent = new http.Agent({ keepAlive: true })
  let choose: (() => InsertFault | undefined) | undefined

  const server = http.createServer((request, response) => {
    const isInsert = request.method === 'POST' && /insert/i.test(decodeURIComponent(request.url ?? ''))
    const fault = isInsert ? choose?.() : undefined
    if (fault !== undefined) handle.injected++
    if (fault?.kind === 'answer') {
      request.resume()
      request.once('end', () => {
        response.writeHead(500, {
          'content-type': 'text/plain', 'x-clickhouse-exception-code': String(fault.code)
        }).end(`Code: ${fault.code}. DB::Exception: ${fault.text} (${fault.name})\n`)
      })
      return
    }
    const upstream = http.request({
      host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers,
      agent
    }, (answer) => {
      if (fault?.kind === 'lose answer') {
        answer.resume()
        answer.once('end', () => request.socket.resetAndDestroy())
        return
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    upstream.on('error', () => request.socket.resetAndDestroy())
    request.on('error', () => upstream.destroy())
    request.pipe(upstream)
  })
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
