import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { startStack } from '../test/start-stack.ts'
import { waitUntilPaused } from '../test/support/test-processes.ts'
import { withoutSettings } from '../test/support/environments.ts'
import { EXIT } from './run-cli.ts'
import { runCaptured } from './testing/run-captured.ts'

const BIN = path.join(import.meta.dirname, 'millrace.js')

/** Of the commands here, in seconds. */
const TIMEOUT_SECONDS = 2

/** A process that has not ended by then hangs: any command that waits for a service waits for ever. */
const HANGS_MS = 120_000

/** Commands that wait for the service, by the API or by themselves. */
const COMMANDS = {
  'nats-server': [
    'dead-letters list', 'dead-letters show 1', 'dead-letters stats', 'dead-letters replay', 'dead-letters purge --yes',
    'audit'
  ],
  clickhouse: ['audit'],
  postgres: ['keys bootstrap ann@example.com']
} as const

interface Ended {
  line: string
  code: number
  out: string
  err: string
}

t.test('every command ends within its time-out while a service hangs', async (t) => {
  const stack = await startStack()
  t.teardown(async () => { await stack.stop() })
  const env = { ...withoutSettings(process.env), NODE_OPTIONS: '', MILLRACE_DATA_DIR: stack.dataDir }
  const send = async (distinctId: string): Promise<number> => (await fetch(`${stack.url}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, event: 'seen', distinct_id: distinctId, $set: { a: 1 } })
  })).status
  await send('u')
  const processes = JSON.parse(await readFile(path.join(stack.dataDir, 'processes.json'), 'utf8')) as { name: string, pid: number }[]
  const pidOf = (service: string): number => processes.find(({ name }) => name === service)!.pid
  const runHere = async (line: string): Promise<Ended> => {
    return { line, ...await runCaptured(line.split(' '), { MILLRACE_DATA_DIR: stack.dataDir }) }
  }
  /** As an operator does: the process itself has to end. */
  const run = async (line: string): Promise<Ended> => {
    return await new Promise((resolve) => {
      execFile(process.execPath, [BIN, ...line.split(' ')], { env, timeout: HANGS_MS }, (error, out, err) => {
        const code = error === null ? 0 : Number(error.code)
        resolve({ line, code, out, err })
      })
    })
  }
  const whilePaused = async <T>(service: string, work: () => Promise<T>): Promise<T> => {
    const pid = pidOf(service)
    process.kill(pid, 'SIGSTOP')
    try {
      await waitUntilPaused(pid)
      return await work()
    } finally {
      process.kill(pid, 'SIGCONT')
    }
  }

  for (const [service, lines] of Object.entries(COMMANDS)) {
    const ended = await whilePaused(service, async () =>
      await Promise.all(lines.map(async (line, index) => {
        const whole = `${line} --timeout ${TIMEOUT_SECONDS}s`
        return index === 0 ? await run(whole) : await runHere(whole)
      })))
    for (const { line, code, err } of ended) {
      // The API may give up first, and says which service; or the command, which knows only the API.
      t.match({ code, err }, { code: EXIT.noAnswer, err: /(does|did) not answer|unavailable/ }, `${service}: ${line}`)
    }
  }

  const { status, shown } = await whilePaused('nats-server', async () => {
    const status = await send('while it hangs')
    return { status, shown: await run('status --once') }
  })
  t.equal(status, 200)
  t.equal(shown.code, EXIT.done)
  t.match(shown.out.split('\n')[0], /DEGRADED {2}Captures are answered/)
  t.match(shown.out, /^nats +unknown +–$/m)
  t.match(shown.out, /STUCK .*nats: no answer/)
})
