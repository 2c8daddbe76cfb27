/** What the tests of duties share: the whole system, requests to it, and what it stored of them. */
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createStackProject, type StackProject } from '../../start-stack.ts'
import type { TestContext } from '../../support/test-context.ts'
import { waitFor } from '../../support/wait-for.ts'

/** How an event is stored; the time in milliseconds. */
export interface StoredRow {
  uuid: string
  event: string
  distinct_id: string
  time: number
  groups: Record<string, string>
  properties: Record<string, any>
}

export interface Answer {
  status: number
  headers: Headers
  body: any
}

export interface Request {
  headers?: Record<string, string>
  /** What the body becomes on the way. */
  encode?: (json: string) => Uint8Array
}

export interface DutyServer {
  stack: StackProject
  url: string
  key: string
  /** An id of a visitor that no other test uses. */
  visitor (): string
  /** A uuid that no other test uses. */
  uuid (): string
  post (path: string, body: unknown, request?: Request): Promise<Answer>
  /** Stored events of a visitor, in order of time, once everything sent before is decided. */
  storedOf (visitor: string): Promise<StoredRow[]>
}

const END = 'end of the duty'

/** A project of its own for the tests of a file, on the stack of the run. */
export async function startDutyServer (t: TestContext): Promise<DutyServer> {
  const stack = await createStackProject(t)
  const { url, projectApiKey: key } = stack
  let visitors = 0
  let uuids = 0
  const post: DutyServer['post'] = async (path, body, request = {}) => await postTo(url, path, body, request)
  // Ingest knows a new key within a second.
  const first = { api_key: key, batch: [{ event: END, distinct_id: END }] }
  await waitFor(async () => (await post('/batch/', first)).status === 200)
  return {
    stack,
    url,
    key,
    post,
    visitor: () => `visitor ${++visitors}`,
    uuid: () => `01a203e1-1cb1-7e98-bb82-${(++uuids).toString(16).padStart(12, '0')}`,
    async storedOf (visitor) {
      // Events of one visitor are in one partition: what came before this one is decided before it.
      await post('/batch/', { api_key: key, batch: [{ event: END, distinct_id: visitor }] })
      return await waitFor(async () => {
        const rows = await stack.select<StoredRow & { properties: string, time: string }>(
          `SELECT uuid, event, distinct_id, toUnixTimestamp64Milli(timestamp) AS time, groups, properties
           FROM events WHERE project_id = {project:UInt32} AND distinct_id = {visitor:String} ORDER BY timestamp, uuid`,
          { visitor, project: stack.project })
        const others = rows.filter(({ event }) => event !== END)
        return others.length < rows.length &&
          others.map((row) => ({ ...row, time: Number(row.time), properties: JSON.parse(row.properties) }))
      })
    }
  }
}

/** A body that is no text is sent as JSON. */
export async function postTo (
  url: string, path: string, body: unknown, { headers = {}, encode }: Request = {}
): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: encode === undefined ? text : Buffer.from(encode(text))
  })
  const answer = await response.text()
  const { status, headers: answered } = response
  return { status, headers: answered, body: answer.startsWith('{') ? JSON.parse(answer) : answer }
}

/** A proxy between a client and the server. */
export interface LossyProxy {
  url: string
  /** What passed, in order. */
  passed: { path: string, headers: Record<string, string>, body: Buffer, status: number }[]
}

/**
 * Starts a proxy that passes every request on, and loses the first answers: the client gets a status of the proxy's
 * own instead, though the server has taken its events. A client cannot tell that from a failure of the server.
 *
 * @param statuses  Sent in place of the first answers, one each; empty for a proxy that only records traffic.
 */
export async function startLossyProxy (
  t: TestContext, target: string, statuses: readonly number[] = []
): Promise<LossyProxy> {
  const passed: LossyProxy['passed'] = []
  const lost = [...statuses]
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const ownHeaders = ['host', 'connection', 'content-length', 'transfer-encoding']
      const headers = Object.fromEntries(
        Object.entries(request.headers as Record<string, string>).filter(([name]) => !ownHeaders.includes(name)))
      const body = Buffer.concat(chunks)
      const { url: path = '', method = 'GET' } = request
      void fetch(target + path, { method, headers, ...body.length > 0 && { body } }).then(async (answer) => {
        const content = Buffer.from(await answer.arrayBuffer())
        const status = lost.shift() ?? answer.status
        passed.push({ path, headers, body, status })
        response.writeHead(status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' })
        response.end(status === answer.status ? content : 'the answer was lost')
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, passed }
}
