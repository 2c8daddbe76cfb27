import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

/** Fails at its start; with `hang`, a handler of the exit never returns. */
const FAIL = `
  import { runProcess } from ${JSON.stringify(path.join(import.meta.dirname, 'process-lifecycle.ts'))}
  if (process.argv[1] === 'hang') process.on('exit', () => { for (;;) {} })
  runProcess('trial', async () => { throw new Error('on purpose') })
`

async function runFailing (...args: string[]): Promise<{ code: number | null, signal: string | null, err: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', FAIL, ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
  const [err, [code, signal]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  return { code: code as number | null, signal: signal as string | null, err }
}

t.test('a failed start says why and ends with 1', async (t) => {
  t.match(await runFailing(), { code: 1, err: /trial could not start: Error: on purpose/ })
})

const onLinux = process.platform === 'linux' ? {} : { skip: 'Linux only' }

t.test('a process that hangs in its exit is killed, so that its supervisor can start it again', onLinux, async (t) => {
  t.match(await runFailing('hang'), { signal: 'SIGKILL', err: /on purpose/ })
})
