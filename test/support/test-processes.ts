import type { ChildProcess } from 'node:child_process'
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startNatsServer } from '../../embedded/nats/start-nats-server.ts'
import type { Service } from '../../embedded/supervisor/processes/service.ts'
import { createSpares } from './process-end.ts'
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

interface NatsOptions {
  /** Default: a free one. */
  port?: number
  extraConfig?: string
}

/** A server, which may be started again, and its folder. */
interface OwnNats {
  readonly dataDir: string
  service: Service
}

/** Servers of this process whose tests have ended, and which are as new. */
const spareNats = createSpares(endNats)

/**
 * Lends a nats-server to one test, with JetStream in a folder of its own. After the test its streams are deleted for
 * the next test of this process: starting one takes 0.15 s of CPU, and more in a large process, which it forks twice.
 * One that was stopped, killed or configured, or to which somebody is still connected, is given to nobody.
 */
export async function startTestNats (t: TestContext, options: NatsOptions = {}): Promise<TestNats> {
  const spares = await spareNats(t)
  let isAsNew = options.port === undefined && options.extraConfig === undefined
  const nats = (isAsNew ? spares.take() : undefined) ?? await startNats(options)
  const { dataDir } = nats
  t.teardown(async () => {
    // One that does not answer is not as new.
    if (isAsNew && await emptyNats(nats).catch(() => false)) await spares.give(nats)
    else await endNats(nats)
  })
  return {
    url: nats.service.url,
    port: nats.service.port,
    dataDir,
    get pid () { return nats.service.pid },
    async stop () {
      isAsNew = false
      await nats.service.stop()
    },
    async kill (signal) {
      isAsNew = false
      nats.service.kill(signal)
      if (signal === 'SIGKILL') await nats.service.exited
      if (signal === 'SIGSTOP') await waitUntilPaused(nats.service.pid)
    },
    async restart () {
      isAsNew = false
      nats.service = await startNatsServer({ ...options, dataDir, port: nats.service.port, durable: false })
    },
    async setPassword (password) {
      isAsNew = false
      const file = path.join(dataDir, 'nats', 'nats-server.conf')
      const config = (await readFile(file, 'utf8')).replace(/^authorization .*\n/m, '')
      await writeFile(file, `${config.trimEnd()}\nauthorization { user: tester, password: ${JSON.stringify(password)} }\n`)
      nats.service.kill('SIGHUP')
    },
    async refusedLogins () {
      return (await readFile(nats.service.logFile, 'utf8')).split('authentication error').length - 1
    }
  }
}

async function startNats (options: NatsOptions): Promise<OwnNats> {
  const dataDir = await mkdtemp(path.join(storesFolder(), 'millrace-test-nats-'))
  return { dataDir, service: await startNatsServer({ port: 0, ...options, dataDir, durable: false }) }
}

async function endNats ({ service, dataDir }: OwnNats): Promise<void> {
  // A paused process would not hear the request to end.
  service.kill('SIGCONT')
  await service.stop()
  await rm(dataDir, { recursive: true, force: true })
}

/** A connection that was just closed is open in the server for a moment. */
const GOODBYE = { checks: 10, everyMs: 10 }

/** @returns false when somebody is still connected. Fails where that cannot be seen, elsewhere than on Linux. */
async function emptyNats ({ service }: OwnNats): Promise<boolean> {
  const connection = await connect({ servers: service.url, reconnect: false })
  try {
    const { streams } = await jetstreamManager(connection)
    for await (const name of streams.names()) await streams.delete(name)
  } finally {
    await connection.close()
  }
  for (let checks = 0; checks < GOODBYE.checks; checks++) {
    if (await countSockets(service.pid) === 1) return true
    await delay(GOODBYE.everyMs)
  }
  return false
}

/** Sockets of a process: of its connections, and the one on which it listens. */
async function countSockets (pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`
  const names = await readdir(folder)
  const targets = await Promise.all(names.map(async (name) => await readlink(path.join(folder, name)).catch(() => '')))
  return targets.filter((target) => target.startsWith('socket:')).length
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
