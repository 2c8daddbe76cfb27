/** Services that a command can do without: it goes on while they do not answer, and says what it does not know. */
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../engines/errors.ts'
import type { NatsConnection } from '../platform/nats/connect-nats.ts'
import { isUnavailable } from '../platform/store-errors.ts'
import type { CliContext } from './cli-context.ts'

/** Exit code of a command that answered, and not in full: nobody may take one for the other. */
export const NO_ANSWER = 3

/** Longest wait for such a service, in milliseconds, where `--timeout` is not shorter. */
const PATIENCE_MS = 3000

/**
 * Refuses a project that does not exist: for a command that found nothing of the project, where nothing would look like
 * an answer. While Postgres does not answer, the command goes on.
 *
 * @throws {MillraceError} `MILLRACE_PROJECT_NOT_FOUND`.
 */
export async function requireProject (context: CliContext, projectId: number): Promise<void> {
  const found = await orNull(context, async () => {
    const sql = await context.postgres({ isWatched: false })
    return await sql`SELECT 1 FROM projects WHERE id = ${projectId}`
  })
  if (found === null) {
    context.stderr.write(`postgres does not answer: whether there is a project ${projectId} is not known.\n`)
  } else if (found.length === 0) {
    throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${projectId}; npx millrace projects list shows all`)
  }
}

/**
 * What NATS says; null while it does not answer, and the command ends with `NO_ANSWER`.
 *
 * @param unknown  What is not known then, for a line on stderr.
 */
export async function askNats<T> (
  context: CliContext, ask: (connection: NatsConnection) => Promise<T>, unknown: string
): Promise<T | null> {
  const connection = await orNull(context, async () => await context.nats({ isWatched: false }))
  const answer = connection === null
    ? null
    : await ask(connection).catch(async (error: unknown) => {
      // Another store may be the one that failed.
      const isAnswered = await orNull(context, async () => { await connection.flush() }) !== null
      if (!isUnavailable(error) || isAnswered) throw error
      return null
    })
  if (answer === null) {
    context.exitCode = NO_ANSWER
    context.stderr.write(`nats does not answer: ${unknown}.\n`)
  }
  return answer
}

async function orNull<T> (context: CliContext, ask: () => Promise<T>): Promise<T | null> {
  const over = new AbortController()
  try {
    return await Promise.race([
      ask(), delay(Math.min(PATIENCE_MS, context.timeoutMs), null, { signal: over.signal })
    ])
  } catch (error) {
    if (!isUnavailable(error)) throw error
    return null
  } finally {
    over.abort()
  }
}
