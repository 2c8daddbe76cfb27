import { appendFileSync } from 'node:fs'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request as a client sent it; one line of JSON in the record. */
export interface RecordedRequest {
  method: string
  /** Path and query of the URL. */
  path: string
  /** Without those of the connection. */
  headers: Record<string, string>
  /** In base64. */
  body: string
}

/** Those that belong to one connection, or say what its sender does anew. */
const OF_CONNECTION = new Set(['connection', 'keep-alive', 'host', 'content-length', 'expect'])

/**
 * Passes HTTP on to `target`, and appends every request to the file.
 *
 * @returns its port, and what ends it.
 */
export async function recordRequests (target: number, file: string): Promise<{ port: number, close: () => void }> {
  const server = http.createServer((request, response) => {
    const { method = '', url = '/', headers } = request
    const chunks: Buffer[] = []
    const upstream = http.request({ host: '127.0.0.1', port: target, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    upstream.on('error', () => response.destroy())
    response.on('close', () => { if (!response.writableFinished) upstream.destroy() })
    request.on('error', () => {})
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const kept = Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name))
        .map(([name, value]) => [name, String(value)])
      const line: RecordedRequest = { method, path: url, headers: Object.fromEntries(kept), body: Buffer.concat(chunks).toString('base64') }
      appendFileSync(file, `${JSON.stringify(line)}\n`)
    })
    request.pipe(upstream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  server.unref()
  return { port: (server.address() as AddressInfo).port, close: () => { server.closeAllConnections(); server.close() } }
}
