import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { createLogger } from '../../platform/logger.ts'
import { createTestPostgres, type TestPostgres } from '../../test/support/test-stores.ts'
import { startTestNats, type TestNats } from '../../test/support/test-processes.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { loadIngestConfig } from '../config.ts'
import { startIngest, type Ingest } from '../start-ingest.ts'

export const PROJECT_KEY = 'phc_test_project'
export const TEAM_KEY = 'team_test_key'

/** An ingest tier on a stream and a Postgres of its own, with project 1 and its keys. A file of tests may share one. */
export interface TestIngest {
  url: string
  dataDir: string
  nats: TestNats
  /** A connection for looking at the streams. */
  connection: NatsConnection
  postgres: TestPostgres
  ingest: Ingest
  post (path: string, body: unknown, init?: RequestInit): Promise<Response>
  /** The value of a counter or gauge line of `/metrics`. */
  metric (line: string): Promise<number>
  stop (): Promise<void>
}

export async function startTestIngest (t: TestContext, env: NodeJS.ProcessEnv = {}): Promise<TestIngest> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-ingest-'))
  t.teardown(async () => await rm(dataDir, { recursive: true, force: true }))
  const [nats, postgres] = await Promise.all([startTestNats(t), createTestPostgres(t)])
  await createProject(postgres)
  const logger = createLogger({ component: 'ingest', level: process.env.MILLRACE_TEST_LOG_LEVEL ?? 'silent' })
  const config = loadIngestConfig({
    NATS_URL: nats.url, DATABASE_URL: postgres.url, MILLRACE_PORT: '0', MILLRACE_DATA_DIR: dataDir, ...env
  })
  const ingest = await startIngest(config, logger)
  const connection = await connectNats({ url: nats.url, name: 'test', logger })
  const url = `http://127.0.0.1:${ingest.port}`
  let stopped = false
  const stop = async (): Promise<void> => {
    if (stopped) return
    stopped = true
    // The client of the test keeps its connections; their time to be used once more would only be waited for.
    ingest.app.server.closeIdleConnections()
    for (const step of ingest.shutdownSteps) await step.run()
  }
  t.teardown(async () => {
    await stop()
    await connection.close()
  })
  return {
    url, dataDir, nats, connection, postgres, ingest, stop,
    async post (path, body, init = {}) {
      const payload = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
      return await fetch(url + path, { method: 'POST', body: payload as NonNullable<RequestInit['body']>, ...init })
    },
    async metric (line) {
      const text = await (await fetch(`${url}/metrics`)).text()
      const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `))
      return Number(found?.slice(line.length + 1) ?? 0)
    }
  }
}

async function createProject ({ sql }: TestPostgres): Promise<void> {
  // The first of a new database has number 1.
  await sql`INSERT INTO projects (name) VALUES ('test')`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES
    (${PROJECT_KEY}, 1, 'project'), (${TEAM_KEY}, 1, 'team')`
}
