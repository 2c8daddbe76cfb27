import { MillraceError } from '../../engines/errors.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'

/** A cluster of NATS elects a leader of a stream or bucket within seconds; after this long something else is wrong. */
const GIVE_UP_AFTER_MS = 30_000

/**
 * Runs a step of the start that needs JetStream, again and again while JetStream does not answer it: a cluster that
 * just started or lost a node has no leader yet, and a bucket that was made a moment ago has none either.
 *
 * @param step  May be repeated.
 * @throws {MillraceError} of the step at once, unless a retry may overcome it; any other error of it after 30 s.
 */
export async function retryAtStart<T> (step: () => Promise<T>, logger: Logger): Promise<T> {
  const deadline = performance.now() + GIVE_UP_AFTER_MS
  for (let attempt = 0; ; attempt++) {
    try {
      return await step()
    } catch (err) {
      if ((err instanceof MillraceError && err.action !== 'retry') || performance.now() > deadline) throw err
      const waitMs = retryDelayMs(attempt)
      logger.warn({ err, attempt, waitMs }, 'JetStream is not ready; trying again')
      await pause(waitMs, new AbortController().signal)
    }
  }
}
