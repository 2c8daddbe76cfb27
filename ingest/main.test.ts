import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { connectNats } from '../platform/nats/connect-nats.ts'
import { createLogger } from '../platform/logger.ts'
import { createTestClickHouse, createTestPostgres } from '../test/support/test-stores.ts'
import { freePort } from '../test/support/local-ports.ts'
import { startTestNats } from '../test/support/test-processes.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { storePublishedEvents } from './testing/read-published-events.ts'
import { PROJECT_KEY } from './testing/start-test-ingest.ts'

async function prepare (t: Test): Promise<{ env: NodeJS.ProcessEnv, url: string, natsUrl: string }> {
  const nats = await startTestNats(t)
  const { sql, url: databaseUrl } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'test')`
  await sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${PROJECT_KEY}, 1)`
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-ingest-'))
  t.teardown(async () => await rm(dataDir, { recursive: true, force: true }))
  const port = await freePort()
  const { PATH, NODE_COMPILE_CACHE } = process.env
  return {
    url: `http://127.0.0.1:${port}`,
    natsUrl: nats.url,
    env: {
      PATH, NODE_COMPILE_CACHE, NATS_URL: nats.url, DATABASE_URL: databaseUrl, MILLRACE_DATA_DIR: dataDir,
      MILLRACE_PORT: String(port), MILLRACE_LOG_LEVEL: 'warn'
    }
  }
}

async function startProcess (t: Test, env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'main.ts')], { env: { ...env, MILLRACE_LOG_LEVEL: 'info' } })
  t.teardown(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => { printed += chunk.toString() })
  child.stderr.pipe(process.stderr)
  await waitFor(() => printed.includes('ingest is listening'))
  return child
}

t.test('replacing a process under load fails no request and loses no event', async (t) => {
  const { env, url, natsUrl } = await prepare(t)
  const clickhouse = await createTestClickHouse(t)
  const first = await startProcess(t, env)
  const load = startLoad(t, url)
  await waitFor(() => load.acknowledged.size > 200)

  const second = await startProcess(t, env)
  first.kill('SIGTERM')
  const [code] = await once(first, 'exit') as [number]
  const before = load.acknowledged.size
  await waitFor(() => load.acknowledged.size > before + 200)
  await load.stop()
  second.kill('SIGTERM')
  await once(second, 'exit')

  t.equal(code, 0)
  t.same(load.failures, [])
  const connection = await connectNats({ url: natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  t.teardown(async () => await connection.close())
  const stored = new Set((await storePublishedEvents(connection, clickhouse)).map(({ event }) => event))
  t.same([...load.acknowledged.difference(stored)], [])
})

t.test('starts without Postgres, and answers 503 as long as it knows no key', async (t) => {
  const { env, url } = await prepare(t)

  await startProcess(t, { ...env, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' })
  const answer = await fetch(`${url}/capture/`, {
    method: 'POST', body: JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
  })

  t.equal(answer.status, 503)
  t.match(await answer.json(), { code: 'fetch_team_fail' })
})

t.test('reports all errors of its settings, and exits', async (t) => {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'main.ts')], {
    env: { PATH: process.env.PATH, MILLRACE_PORT: 'x', MILLRACE_PARTITIONS: '0' }, stdio: ['ignore', 'ignore', 'pipe']
  })
  let printed = ''
  child.stderr.on('data', (chunk: Buffer) => { printed += chunk.toString() })
  const [code] = await once(child, 'exit') as [number]

  t.equal(code, 1)
  t.match(printed, /MILLRACE_PORT/)
  t.match(printed, /MILLRACE_PARTITIONS/)
})

/** Clients with keep-alive that never repeat a request: each failure is one a user would see. */
function startLoad (t: Test, url: string): { acknowledged: Set<string>, failures: string[], stop (): Promise<void> } {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 })
  t.teardown(() => agent.destroy())
  const acknowledged = new Set<string>()
  const failures: string[] = []
  const stopped = new AbortController()
  let ordinal = 0
  const clients = Array.from({ length: 16 }, async () => {
    while (!stopped.signal.aborted) {
      const event = `e${ordinal++}`
      await send(event).then(() => acknowledged.add(event), (error: unknown) => failures.push(String(error)))
      // As fast as they can, clients would take the cores from the process that starts.
      await delay(40)
    }
  })
  return {
    acknowledged,
    failures,
    async stop () {
      stopped.abort()
      await Promise.all(clients)
    }
  }

  async function send (event: string): Promise<void> {
    const body = JSON.stringify({ api_key: PROJECT_KEY, event, distinct_id: 'u' })
    const request = http.request(`${url}/capture/`, { method: 'POST', agent })
    request.end(body)
    const [answer] = await once(request, 'response') as [http.IncomingMessage]
    answer.resume()
    await once(answer, 'end')
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`)
  }
}
