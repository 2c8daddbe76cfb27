import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { freePort } from './free-port.ts'
import { type TestContext } from './test-context.ts'
import { waitFor } from './wait-for.ts'
import { waitUntilPaused } from './wait-until-paused.ts'

const MAIN = path.resolve(import.meta.dirname, '..', '..', 'pipeline', 'main.ts')

/** A pipeline process as it runs in production. */
export interface TestPipeline {
  readonly child: ChildProcess
  /** Base URL of its health and metrics. */
  readonly url: string
  /** Sends a signal; resolves when it is gone, after SIGSTOP when it stands still, after SIGCONT at once. */
  kill: (signal: NodeJS.Signals) => Promise<void>
}

/** Starts a pipeline process against the given stores and waits until it is ready. It ends with the test. */
export async function startTestPipeline (t: TestContext, stores: {
  natsUrl: string, clickhouseUrl: string, databaseUrl: string, env?: Record<string, string>
}): Promise<TestPipeline> {
  const port = await freePort()
  const { NODE_OPTIONS: _, ...inherited } = process.env
  const child = spawn(process.execPath, [MAIN], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...inherited,
      MILLRACE_LOG_LEVEL: process.env.MILLRACE_TEST_LOG_LEVEL ?? 'silent',
      MILLRACE_PIPELINE_PORT: String(port),
      NATS_URL: stores.natsUrl,
      CLICKHOUSE_URL: stores.clickhouseUrl,
      DATABASE_URL: stores.databaseUrl,
      ...stores.env
    }
  })
  const exited = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  await waitFor(async () => (await fetch(`${url}/_readiness`)).status === 200, { timeoutMs: 20_000 })
  return {
    child,
    url,
    async kill (signal) {
      child.kill(signal)
      if (signal === 'SIGSTOP') await waitUntilPaused(child.pid!)
      else if (signal !== 'SIGCONT') await exited
    }
  }
}
