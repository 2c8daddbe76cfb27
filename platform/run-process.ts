import { SettingsError } from './errors.ts'

/**
 * Runs the composition root of one process: a failed start says why once on standard error and exits non-zero; so
 * does an unhandled rejection later, because a process in an unknown state must not go on acknowledging events.
 */
export function runProcess (name: string, start: () => Promise<void>): void {
  process.on('unhandledRejection', (reason) => fail(`${name} stopped on an unhandled error`, reason))
  process.on('uncaughtException', (error) => fail(`${name} stopped on an unhandled error`, error))
  start().catch((error: unknown) => fail(`${name} could not start`, error))
}

function fail (what: string, error: unknown): never {
  const why = error instanceof SettingsError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`${what}: ${why}\n`)
  process.exit(1)
}
