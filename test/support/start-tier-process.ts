import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { TestContext } from './test-context.ts'

const REPOSITORY = path.resolve(import.meta.dirname, '..', '..')

/** A tier as a process of its own, as it runs in production. */
export interface TierProcess {
  readonly child: ChildProcess
  /** Where it listens. */
  readonly url: string
  /** Resolves when it is gone. */
  readonly exited: Promise<unknown>
}

/**
 * Starts a tier and waits until it listens, on a port that it chose itself: one chosen for it could be taken by another
 * program before it listens. The process ends with the test.
 *
 * @param options.root  The folder of the release. Default: this repository.
 * @param options.env  Its settings; nothing is inherited but what a process needs to run.
 * @throws {Error} when it ends before it listens, with all that it printed.
 */
export async function startTierProcess (t: TestContext, { tier, root = REPOSITORY, env }: {
  tier: 'ingest' | 'pipeline' | 'api', root?: string, env: NodeJS.ProcessEnv
}): Promise<TierProcess> {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const child = spawn(process.execPath, [path.join(root, tier, 'main.ts')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH, HOME, ...NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE },
      MILLRACE_PORT: '0', MILLRACE_PIPELINE_PORT: '0', MILLRACE_API_PORT: '0',
      ...env,
      // Its port is in the log.
      MILLRACE_LOG_LEVEL: 'info'
    }
  })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  child.stderr.pipe(process.stderr)
  const printed: string[] = []
  child.stderr.on('data', (chunk: Buffer) => printed.push(chunk.toString()))
  for await (const line of createInterface({ input: child.stdout })) {
    printed.push(line)
    const url = findAddress(line)
    if (url === undefined) continue
    if (process.env.MILLRACE_TEST_LOG_LEVEL === undefined) child.stdout.resume()
    else child.stdout.pipe(process.stdout)
    return { child, url, exited }
  }
  await exited
  throw new Error(`the ${tier} process ended before it listened (exit code ${child.exitCode}):\n${printed.join('\n')}`)
}

/** The URL in the line of the log that says where the tier listens. */
function findAddress (line: string): string | undefined {
  const { address, port, msg } = JSON.parse(line) as { address?: string, port?: number, msg: string }
  if (!/ is (listening|running)$/.test(msg)) return undefined
  return address ?? `http://127.0.0.1:${port}`
}
