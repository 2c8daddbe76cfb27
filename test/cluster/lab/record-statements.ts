import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** A statement that ClickHouse refused. */
export interface RefusedStatement {
  login: string
  statement: string
  code: string
  error: string
}

export interface StatementRecorder {
  /** Of the same login and database, through the recorder. */
  throughRecorder (url: string): string
  /** Texts that ran, by login; numbers and strings in them count as the same. */
  ran: Map<string, Set<string>>
  refused: RefusedStatement[]
  close (): Promise<void>
}

/** Bytes of a request and an answer that are read for the record. */
const MAX_BYTES = 4000

/** Passes HTTP to `target` and records what was asked, and what ClickHouse refused. */
export async function recordStatements (target: string): Promise<StatementRecorder> {
  const { hostname, port } = new URL(target)
  const agent = new http.Agent({ keepAlive: true })
  const ran = new Map<string, Set<string>>()
  const refused: RefusedStatement[] = []

  const server = http.createServer((request, response) => {
    const params = new URL(request.url ?? '', 'http://clickhouse').searchParams
    const sent = createHead()
    const upstream = http.request({
      agent, host: hostname, port, method: request.method, path: request.url, headers: request.headers
    }, (answer) => {
      const received = createHead()
      answer.on('data', received.add)
      answer.on('end', () => {
        const login = readLogin(request)
        const statement = (params.get('query') ?? sent.text()).replaceAll(/\s+/g, ' ').trim()
        const code = answer.headers['x-clickhouse-exception-code'] ?? /^Code: (\d+)/m.exec(received.text())?.[1]
        const error = received.text().slice(0, 400)
        if (code !== undefined) refused.push({ login, statement, code: String(code), error })
        const texts = ran.get(login) ?? new Set()
        ran.set(login, texts.add(statement.replaceAll(/'[^']*'|\b\d+\b/g, '?')))
      })
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    upstream.on('error', () => request.socket.destroy())
    response.on('close', () => { if (!response.writableFinished) upstream.destroy() })
    request.on('data', sent.add)
    request.pipe(upstream)
  })
  server.keepAliveTimeout = 120_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  return {
    throughRecorder (url) {
      const changed = new URL(url)
      changed.host = `127.0.0.1:${own}`
      return changed.href
    },
    ran,
    refused,
    async close () {
      server.closeAllConnections()
      agent.destroy()
      server.close()
      await once(server, 'close')
    }
  }
}

function readLogin ({ headers }: http.IncomingMessage): string {
  const basic = /^Basic (.+)$/.exec(headers.authorization ?? '')?.[1]
  const login = basic === undefined ? headers['x-clickhouse-user'] : Buffer.from(basic, 'base64').toString().split(':')[0]
  return String(login ?? 'default')
}

function createHead (): { add: (chunk: Buffer) => void, text: () => string } {
  const chunks: Buffer[] = []
  let bytes = 0
  return {
    add (chunk) {
      if (bytes < MAX_BYTES) chunks.push(chunk.subarray(0, MAX_BYTES - bytes))
      bytes += chunk.length
    },
    text: () => Buffer.concat(chunks).toString()
  }
}
