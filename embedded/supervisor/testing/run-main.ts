import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePorts } from '../../../test/support/local-ports.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { withoutSettings } from '../../../test/support/environments.ts'
import { PATIENCE_MS } from '../../../test/support/wait-for.ts'

const MAIN = path.join(import.meta.dirname, '..', 'main.ts')

/** `npm start` under test. */
export interface RunningMain {
  child: ChildProcess
  /** What it printed so far, errors included. */
  output (): string
  /** Resolves when the block is printed. */
  ready (): Promise<void>
  /** Resolves with the exit code when it ended. */
  exited: Promise<number | null>
}

/** A data directory that is removed with the test. */
export async function makeDataDir (t: TestContext, uid?: number): Promise<string> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-stack-'))
  if (uid !== undefined) await chown(dataDir, uid, uid)
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true, maxRetries: 20 }) })
  return dataDir
}

/** Settings for a stack on ports of its own. */
export async function chooseSettings (dataDir: string): Promise<Record<string, string>> {
  const [port, clickhousePort, natsPort, postgresPort] = await freePorts(4)
  return {
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: String(port),
    MILLRACE_CLICKHOUSE_PORT: String(clickhousePort),
    MILLRACE_NATS_PORT: String(natsPort),
    MILLRACE_POSTGRES_PORT: String(postgresPort)
  }
}

/** Runs `npm start` with these settings, and ends it with the test. @param uid  Runs it as this user; only root can. */
export function runMain (t: TestContext, settings: Record<string, string>, uid?: number): RunningMain {
  let printed = ''
  // The test runner would instrument the supervisor and every process below; see `test/support/run-uninstrumented.js`.
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, MAIN], {
    env: { ...withoutSettings(process.env), ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(uid === undefined ? {} : { uid, gid: uid })
  })
  const collect = (chunk: Buffer): void => { printed += chunk.toString() }
  child.stdout.on('data', collect)
  child.stderr.on('data', collect)
  const exited = once(child, 'close').then(([code]) => code as number | null)
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
  })
  return {
    child,
    output: () => printed,
    exited,
    async ready () {
      let [deadline, length] = [0, -1]
      while (!printed.includes('Millrace is ready')) {
        // It prints a line for each of its steps.
        if (printed.length > length) [deadline, length] = [Date.now() + PATIENCE_MS, printed.length]
        if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it ended and had printed:\n${printed}`)
        if (Date.now() > deadline) throw new Error(`it is not ready and had printed:\n${printed}`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
  }
}
