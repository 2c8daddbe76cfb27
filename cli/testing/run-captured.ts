import type { Test } from 'tap'
import type { CliWorld } from '../cli-context.ts'
import { runCli } from '../run-cli.ts'
import { createTestApi, type TestApi } from '../../api/testing/create-test-api.ts'
import type { TestContext } from '../../test/support/test-context.ts'

/** What a command line did: its exit code, and what it wrote. */
export interface Captured {
  code: number
  out: string
  err: string
}

/** Runs a command line in an environment of its own and keeps what it writes. For tests. */
export async function runCaptured (
  args: readonly string[], env: NodeJS.ProcessEnv,
  { now = Date.now, isTTY = false }: { now?: () => number, isTTY?: boolean } = {}
): Promise<Captured> {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    env,
    stdout: { write: (text: string) => { out += text } },
    stderr: { isTTY, write: (text: string) => { err += text } } as CliWorld['stderr'],
    now
  })
  return { code, out, err }
}

/** As `t.match`, named after how the command ended; a failure also shows all that it wrote. */
export function matchCaptured (t: Pick<Test, 'match'>, captured: Captured, pattern: object, name?: string): void {
  const { code, err, out } = captured
  const ended = `ended with code ${code}: ${err.trimEnd().split('\n').at(-1) ?? ''}`
  t.match(captured, pattern, name === undefined ? ended : `${name}; ${ended}`, { err, out })
}

type Parts = Parameters<typeof createTestApi> extends [unknown, ...infer P] ? P : never

/** An API with project 1, and commands that use it with a key that may do everything. */
export interface ServedApi extends TestApi {
  env: { MILLRACE_URL: string, MILLRACE_KEY: string }
  run: (...args: string[]) => Promise<Captured>
}

/** Starts an API for the commands of one test. The parameters are those of `createTestApi`. */
export async function startApi (t: TestContext, ...parts: Parts): Promise<ServedApi> {
  const api = await createTestApi(t, ...parts)
  const env = { MILLRACE_URL: await api.app.listen({ port: 0, host: '127.0.0.1' }), MILLRACE_KEY: api.key }
  return { ...api, env, run: async (...args) => await runCaptured(args, env, { now: parts[0]?.now ?? Date.now }) }
}
