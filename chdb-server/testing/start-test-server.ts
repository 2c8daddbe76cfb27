import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { spoolFolders } from '../engine/body-spool.ts'
import { MAIN } from '../program.ts'
import { recordRequests } from './record-requests.ts'

/** A server of its own process for a test file, on a free port and a data directory of its own. */
export interface TestServer {
  port: number
  pid: number
  dataDir: string
  /** Sends a signal and waits until the process is gone; resolves to its exit code, or the signal's name. */
  stop: (signal: NodeJS.Signals) => Promise<number | string>
  /** Starts it again on the same data. */
  restart: () => Promise<void>
  ask: (query: string, options?: AskOptions) => Promise<HttpAnswer>
}

export interface AskOptions {
  params?: Record<string, string>
  body?: string | Uint8Array
  headers?: Record<string, string>
  method?: string
  user?: string
  /** Absent: the user's right one. */
  password?: string
}

export interface HttpAnswer {
  status: number
  headers: http.IncomingHttpHeaders
  bytes: Buffer
  text: string
  /** ClickHouse's number of the error, or 0. */
  code: number
}

const OWNER = 'owner'

interface Teardown {
  after: (work: () => unknown) => void
}

export const TEST_PASSWORDS = { owner: 'owner secret', analyst: 'reader secret' } as const

export interface TestServerOptions {
  /** Name of the login that may do everything. Default `owner`. */
  owner?: string
  /** Made at the start. Default `shop`. */
  database?: string
  /** The script that is started. Default: `MAIN`. */
  main?: string
  /** Further options of the command line. */
  args?: readonly string[]
  env?: NodeJS.ProcessEnv
  /** What it reads from its standard input. */
  input?: string
}

/**
 * Environment of a server for `limitFiles`. With the error, the kernel sends a signal, which would end the process
 * before the engine sees the error.
 */
export const LIMITABLE: NodeJS.ProcessEnv = { NODE_OPTIONS: "--import=data:text/javascript,process.on('SIGXFSZ',()=>{})" }

/** From here on no file of the process may become longer: the write beyond fails, as on a full disk. */
export function limitFiles (server: TestServer, bytes: number): void {
  execFileSync('prlimit', ['--pid', String(server.pid), `--fsize=${bytes}`])
}

/**
 * Starts the server; everything is gone after the test. With a file named in `CHDB_SERVER_TEST_RECORD`, all requests of
 * the test are appended to it, for the comparison with ClickHouse's own server.
 */
export async function startTestServer (t: Teardown, options: TestServerOptions = {}): Promise<TestServer> {
  const { owner = OWNER } = options
  const dataDir = await mkdtemp(path.join(tmpdir(), 'chdb-server-'))
  let child: ChildProcess
  const stop = async (signal: NodeJS.Signals): Promise<number | string> => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode ?? child.signalCode!
    child.ref()
    const exited = once(child, 'exit')
    child.kill(signal)
    const [code, name] = await exited
    return code ?? name
  }
  const server: TestServer = {
    port: 0,
    pid: 0,
    dataDir,
    stop,
    async restart () {
      child = spawnServer(dataDir, options)
      server.pid = child.pid!
      server.port = await readPort(child)
      const file = process.env.CHDB_SERVER_TEST_RECORD
      if (file === undefined) return
      const recorder = await recordRequests(server.port, file)
      t.after(recorder.close)
      server.port = recorder.port
    },
    ask: async (query, options = {}) => await sendQuery(server.port, query, { user: owner, ...options })
  }
  t.after(async () => {
    await stop('SIGKILL')
    const folders = [dataDir, ...spoolFolders(dataDir)]
    for (const folder of folders) await rm(folder, { recursive: true, force: true })
  })
  await server.restart()
  return server
}

/** Starts the process without waiting for it. */
export function spawnServer (dataDir: string, options: TestServerOptions = {}): ChildProcess {
  const { owner = OWNER, database = 'shop', main = MAIN, args = [], env, input } = options
  const child = spawn(process.execPath, [main, '--data-dir', dataDir, '--port', '0', '--user', owner, '--database', database, ...args], {
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: {
      ...process.env,
      UV_THREADPOOL_SIZE: '',
      CHDB_SERVER_PASSWORD: TEST_PASSWORDS.owner,
      CHDB_SERVER_ANALYST_PASSWORD: TEST_PASSWORDS.analyst,
      ...env
    }
  })
  child.stdin?.end(input)
  return child
}

async function readPort (child: ChildProcess): Promise<number> {
  let errors = ''
  child.stderr!.on('data', (chunk: Buffer) => { errors += chunk.toString() })
  for await (const line of createInterface(child.stdout!)) {
    const { port } = JSON.parse(line) as { port?: number }
    if (port === undefined) continue
    detach(child)
    return port
  }
  throw new Error(`the server did not start: ${errors}`)
}

/** A running server must not keep a test file from ending; ending is what stops the server. */
function detach (child: ChildProcess): void {
  child.unref()
  for (const stream of [child.stdout, child.stderr]) {
    stream!.resume()
    ;(stream as unknown as Socket).unref()
  }
}

async function sendQuery (port: number, query: string, options: AskOptions): Promise<HttpAnswer> {
  const { user = OWNER, method = 'POST', body = query } = options
  const password = options.password ?? (user === 'analyst' ? TEST_PASSWORDS.analyst : TEST_PASSWORDS.owner)
  const inUrl = options.body === undefined && method === 'POST' ? {} : { query }
  const search = new URLSearchParams({ ...inUrl, ...options.params })
  const request = http.request({
    host: '127.0.0.1',
    port,
    method,
    path: `/?${search}`,
    headers: { 'x-clickhouse-user': user, 'x-clickhouse-key': password, ...options.headers }
  })
  request.end(method === 'POST' ? body : undefined)
  const [response] = await once(request, 'response') as [http.IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const bytes = Buffer.concat(chunks)
  const code = Number(response.headers['x-clickhouse-exception-code'] ?? 0)
  return { status: response.statusCode!, headers: response.headers, bytes, text: bytes.toString(), code }
}
