import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ChildProcess } from 'node:child_process'
import { startNatsServer } from '../../embedded/nats/start-nats-server.ts'
import type { Service } from '../../embedded/supervisor/processes/service.ts'
import type { TestContext } from './test-context.ts'
import { startTierProcess } from './start-tier-process.ts'
import { storesFolder } from './stores-folder.ts'
import { waitFor } from './wait-for.ts'

export interface TestNats {
  /** What `NATS_URL` is set to in order to use it. */
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Its files are in `nats` below. */
  readonly dataDir: string
  /** Ends it as an operator would; its streams stay for `restart`. */
  stop (): Promise<void>
  /** Sends a signal: SIGKILL for a crash, SIGSTOP for a pause (resolves when it is gone or stands still), SIGCONT. */
  kill (signal: NodeJS.Signals): Promise<void>
  /** Starts it again, on the same port and the same files. */
  restart (): Promise<void>
  /**
   * Reloads it with this password for the user `tester`, the only one who can log in until `restart`; ends connections
   * that have another login. The new one may take some milliseconds.
   */
  setPassword (password: string): Promise<void>
  /** How many logins it has refused, by its log. */
  refusedLogins (): Promise<number>
}

/**
 * Starts a nats-server for one test, with JetStream in a folder of its own. Cheap: about 50 ms.
 *
 * @param options.port  Default: a free one.
 */
export async function startTestNats (
  t: TestContext, { port = 0, extraConfig = '' }: { port?: number, extraConfig?: string } = {}
): Promise<TestNats> {
  const dataDir = await mkdtemp(path.join(storesFolder(), 'millrace-test-nats-'))
  let service: Service = await startNatsServer({ dataDir, port, extraConfig, durable: false })
  t.teardown(async () => {
    // A paused process would not hear the request to end.
    service.kill('SIGCONT')
    await service.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  return {
    url: service.url,
    port: service.port,
    dataDir,
    get pid () { return service.pid },
    async stop () { await service.stop() },
    async kill (signal) {
      service.kill(signal)
      if (signal === 'SIGKILL') await service.exited
      if (signal === 'SIGSTOP') await waitUntilPaused(service.pid)
    },
    async restart () {
      service = await startNatsServer({ dataDir, port: service.port, extraConfig, durable: false })
    },
    async setPassword (password) {
      const file = path.join(dataDir, 'nats', 'nats-server.conf')
      const config = (await readFile(file, 'utf8')).replace(/^authorization .*\n/m, '')
      await writeFile(file, `${config.trimEnd()}\nauthorization { user: tester, password: ${JSON.stringify(password)} }\n`)
      service.kill('SIGHUP')
    },
    async refusedLogins () {
      return (await readFile(service.logFile, 'utf8')).split('authentication error').length - 1
    }
  }
}

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
  const { child, url, exited } = await startTierProcess(t, {
    tier: 'pipeline',
    env: {
      NATS_URL: stores.natsUrl, CLICKHOUSE_URL: stores.clickhouseUrl, DATABASE_URL: stores.databaseUrl, ...stores.env
    }
  })
  await waitFor(async () => (await fetch(`${url}/_readiness`)).status === 200)
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

/**
 * Waits until a process that was sent SIGSTOP stands still. The signal reaches its threads one by one: a nats-server
 * answered once in a hundred times after the call had returned.
 *
 * Only Linux tells; elsewhere it returns at once.
 */
export async function waitUntilPaused (pid: number): Promise<void> {
  if (process.platform !== 'linux') return
  await waitFor(async () => (await readThreadStates(pid)).every((state) => state === 'T'), { everyMs: 1 })
}

async function readThreadStates (pid: number): Promise<string[]> {
  const threads = await readdir(`/proc/${pid}/task`)
  return await Promise.all(threads.map(async (thread) => {
    // A thread may end meanwhile.
    const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => ') T')
    return stat.charAt(stat.lastIndexOf(')') + 2)
  }))
}
