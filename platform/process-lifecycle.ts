import { spawn } from 'node:child_process'
import { MillraceError } from '../engines/errors.ts'
import { explainListenError } from './listen-errors.ts'
import type { Logger } from './logger.ts'

/** A step of the shutdown, named for the log. */
export interface ShutdownStep {
  name: string
  run: () => unknown
}

/** The embedded stack promises to be gone within ten seconds; each tier leaves it a second of slack. */
const SHUTDOWN_TIMEOUT_MS = 8000

/**
 * Runs the composition root of one process: a failed start says why once on standard error and exits non-zero; so
 * does an unhandled rejection later, because a process in an unknown state must not go on acknowledging events.
 */
export function runProcess (name: string, start: () => Promise<void>): void {
  process.on('unhandledRejection', (reason) => fail(`${name} stopped on an unhandled error`, reason))
  process.on('uncaughtException', (error) => fail(`${name} stopped on an unhandled error`, error))
  start().catch((error: unknown) => fail(`${name} could not start`, explainListenError(error, name, process.env)))
}

function fail (what: string, error: unknown): never {
  // Our own errors say what to do; any other needs its stack trace to be found.
  const why = error instanceof MillraceError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`${what}: ${why}\n`)
  killWhenExitHangs()
  process.exit(1)
}

/** How long the exit may take, in seconds: it runs the handlers of libraries, some of them native. */
const EXIT_SECONDS = 5

/**
 * A process that hangs in its exit neither works nor ends, so nobody starts it again. A shell kills it, if it is still
 * the shell's parent by then: no other process that got its number is.
 */
function killWhenExitHangs (): void {
  if (process.platform !== 'linux') return
  const { pid } = process
  const script = `sleep ${EXIT_SECONDS}; read -r _ _ _ parent _ < /proc/$$/stat; [ "$parent" != ${pid} ] || kill -9 ${pid}`
  spawn('/bin/sh', ['-c', script], { detached: true, stdio: 'ignore', cwd: '/' }).unref()
}

/**
 * Ends the process in the order of the data flow when SIGTERM or SIGINT arrives: close the source first.
 *
 * A step that fails is logged and the next one runs. The process exits non-zero when a step failed or when the
 * whole took longer than eight seconds; what was not acknowledged by then is redelivered to the next process.
 */
export function onShutdown (logger: Logger, steps: readonly ShutdownStep[]): void {
  let started = false
  const shutdown = (signal: string): void => {
    if (started) return
    started = true
    logger.info({ signal }, 'shutting down')
    const timer = setTimeout(() => {
      logger.error({ timeoutMs: SHUTDOWN_TIMEOUT_MS }, 'shutdown took too long; exiting')
      process.exit(1)
    }, SHUTDOWN_TIMEOUT_MS)
    timer.unref()
    void runSteps(logger, steps).then((failed) => {
      logger.info('shut down')
      process.exit(failed ? 1 : 0)
    })
  }
  process.once('SIGTERM', () => shutdown('SIGTERM'))
  process.once('SIGINT', () => shutdown('SIGINT'))
}

async function runSteps (logger: Logger, steps: readonly ShutdownStep[]): Promise<boolean> {
  let failed = false
  for (const step of steps) {
    try {
      await step.run()
    } catch (err) {
      failed = true
      logger.error({ err, step: step.name }, 'shutdown step failed')
    }
  }
  return failed
}
