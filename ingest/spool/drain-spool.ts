import { setTimeout as delay } from 'node:timers/promises'
import { type Logger } from '../../platform/logger.ts'
import { type Publish } from '../publish/outgoing-message.ts'
import { type Spool } from './spool.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2000

export interface DrainOptions {
  spool: Spool
  publish: Publish
  /** Called after each portion that arrived. */
  onProgress: () => void
  logger: Logger
  signal: AbortSignal
}

/**
 * Publishes what a spool holds until it is empty, however often the stream refuses; pauses double up to two seconds.
 * Ends early when aborted: what is left stays on the disk.
 */
export async function drainSpool ({ spool, publish, onProgress, logger, signal }: DrainOptions): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS
  while (!signal.aborted) {
    try {
      const published = await spool.drainSome(publish)
      pauseMs = FIRST_PAUSE_MS
      if (published > 0) onProgress()
      else if (spool.isEmpty) return
    } catch (err) {
      logger.debug({ err, retryAfterMs: pauseMs }, 'the spool cannot be drained yet')
      // An abort only ends the pause early.
      await delay(pauseMs, undefined, { signal }).catch(() => {})
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
    }
  }
}
