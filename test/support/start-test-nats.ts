import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startNatsServer } from '../../deploy/local/services/start-nats-server.ts'
import { type Service } from '../../deploy/local/processes/service.ts'
import { type TestContext } from './test-context.ts'
import { waitUntilPaused } from './wait-until-paused.ts'

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
}

/**
 * Starts a nats-server for one test, with JetStream in a folder of its own. Cheap: about 50 ms.
 *
 * @param options.port  Default: a free one.
 */
export async function startTestNats (t: TestContext, options: { port?: number } = {}): Promise<TestNats> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-nats-'))
  let service: Service = await startNatsServer({ dataDir, port: options.port ?? 0, durable: false })
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
      service = await startNatsServer({ dataDir, port: service.port, durable: false })
    }
  }
}
