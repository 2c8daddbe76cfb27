/**
 * `npm start`: the whole system on one machine. Starts, says how to use it, and ends everything when asked to.
 */
import { MillraceError } from '../../platform/errors.ts'
import { describeStack } from './describe-stack.ts'
import { createProgress } from './progress.ts'
import { loadStackSettings } from './stack-settings.ts'
import { startStack, type Stack } from './start-stack.ts'

/**
 * npm passes a signal on to its child that the terminal has sent to both: within this time the second one is the
 * same key press.
 */
const SAME_PRESS_MS = 500
const PARENT_CHECK_MS = 250

// What the stack stores is for its owner only; every process of it inherits this.
process.umask(0o077)

const startedAt = performance.now()
const starting = new AbortController()
const progress = createProgress(process.stdout, () => performance.now())
let stack: Stack | undefined
let stopRequestedAt: number | undefined
let killAll = (): void => {}

// A closed terminal or pipe must not end the stack half-way through its shutdown.
process.stdout.on('error', () => {})
process.stderr.on('error', () => {})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => requestStop(signal))
watchNpm()

try {
  const settings = loadStackSettings(process.env)
  progress.note('Starting Millrace')
  stack = await startStack({
    settings, progress, signal: starting.signal, onForce: (force) => { killAll = force }
  })
  if (stopRequestedAt === undefined) process.stdout.write(describeStack(stack, performance.now() - startedAt))
  else await stopStack(stack)
} catch (error) {
  if (stopRequestedAt !== undefined) process.exit(0)
  fail(error)
}

function requestStop (reason: string): void {
  const now = performance.now()
  if (stopRequestedAt !== undefined) {
    if (now - stopRequestedAt < SAME_PRESS_MS) return
    progress.note('Stopping at once')
    killAll()
    process.exit(1)
  }
  stopRequestedAt = now
  progress.note(`Stopping (${reason}); once more to stop at once`)
  if (stack === undefined) starting.abort()
  else void stopStack(stack).catch(fail)
}

async function stopStack (running: Stack): Promise<void> {
  await running.stop()
  progress.note('Stopped')
  process.exit(0)
}

function fail (error: unknown): never {
  // Errors of our own say what to do; of any other the stack is needed to find it.
  const text = error instanceof MillraceError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`\nMillrace could not start: ${text}\n`)
  process.exit(1)
}

/** When npm is killed, nobody is left to whom Ctrl-C in its terminal would go. */
function watchNpm (): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent && stopRequestedAt === undefined) requestStop('npm is gone')
  }, PARENT_CHECK_MS).unref()
}
