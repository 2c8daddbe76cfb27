/** Publishes what a spool holds, as soon as the stream takes messages again. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../../platform/logger.ts'
import type { Publish } from '../publish/durable-publisher.ts'
import type { SpooledMessage } from './segment-reader.ts'

export interface DrainOptions {
  spool: DrainedSpool
  publish: Publish
  /** Called after each portion that arrived. */
  onProgress: () => void
  logger: Logger
  signal: AbortSignal
}

/** What is asked of a spool to drain it. */
export interface DrainedSpool {
  /** Publishes the oldest messages and removes them; 0 when none is left. */
  drainSome: (publish: Publish) => Promise<number>
  readonly isEmpty: boolean
}

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1000

/**
 * Publishes the messages of a spool until it is empty, however often the stream refuses; pauses double up to a
 * second. Ends early when aborted: what is left stays on the disk.
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

/** Spooled messages in flight at a time. */
const MAX_IN_FLIGHT = 8

/**
 * Publishes until one fails. Events may overtake each other, some at a time; persons updates may not.
 *
 * @returns how many were published before the first that failed.
 */
export async function publishInOrder (
  spooled: readonly SpooledMessage[], publish: Publish
): Promise<{ published: number, failure?: unknown }> {
  for (let start = 0; start < spooled.length;) {
    const window = takeWindow(spooled, start)
    const results = await Promise.allSettled(window.map(async ({ message }) => await publish(message)))
    for (const [index, result] of results.entries()) {
      if (result.status === 'rejected') return { published: start + index, failure: result.reason }
    }
    start += window.length
  }
  return { published: spooled.length }
}

/** One persons update, or as many events as follow each other. */
function takeWindow (spooled: readonly SpooledMessage[], start: number): readonly SpooledMessage[] {
  const window = spooled.slice(start, start + MAX_IN_FLIGHT)
  const ordered = window.findIndex(({ message }) => message.subject.startsWith('persons.'))
  return ordered === -1 ? window : window.slice(0, Math.max(ordered, 1))
}
