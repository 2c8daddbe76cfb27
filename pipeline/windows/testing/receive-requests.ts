import { once } from 'node:events'
import http, { type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from '../../../test/support/test-context.ts'

export interface ReceivedRequest {
  at: number
  headers: IncomingHttpHeaders
  body: string
}

/** A server on 127.0.0.1 that keeps what it gets. `answer` sends the answer; default: 200. */
export async function receiveRequests (
  t: TestContext, answer: (response: ServerResponse, count: number) => unknown = (response) => response.end()
): Promise<{ url: string, received: ReceivedRequest[], setAnswer: (other: typeof answer) => void }> {
  const received: ReceivedRequest[] = []
  let current = answer
  const server = http.createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => { body += text }).on('end', () => {
      received.push({ at: Date.now(), headers: request.headers, body })
      current(response, received.length)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close(); server.closeAllConnections() })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/hook`, received, setAnswer: (other) => { current = other } }
}
