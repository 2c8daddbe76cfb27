import type { CliWorld } from '../cli-context.ts'
import { runCli } from '../run-cli.ts'

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
