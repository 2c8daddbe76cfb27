import { FencedError } from '../partitions/partition-records.ts'
import { partitionKey } from '../partitions/partition-record.ts'
import { releasePartition } from '../partitions/release-partition.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import { runPartitionSession, type PartitionDeps } from './run-partition-session.ts'

/** A session that lasted so long, in milliseconds, was healthy: the next failure starts with a short pause again. */
const HEALTHY_AFTER_MS = 30_000

/**
 * Writes one partition until it is stopped or belongs to another process. Whatever goes wrong ends the session; the
 * next one starts from the partition's record, which is the same way that a new owner takes.
 *
 * @param deps.stop    Finish what was begun, release the partition and return.
 * @param deps.abort   Abandon the running insert; the next owner repeats the recorded batch range.
 * @param deps.giveUp  The process ends: return although the partition could not be released.
 */
export async function runPartition (deps: PartitionDeps): Promise<void> {
  await runSessions(deps)
  if (deps.stop.aborted) await releasePartition(deps)
}

async function runSessions (deps: PartitionDeps): Promise<void> {
  const { partition, logger, state, stop } = deps
  for (let attempt = 0; !stop.aborted; attempt++) {
    const startedAt = performance.now()
    try {
      await runPartitionSession(deps)
      if (state.phase === 'standby') return
    } catch (error) {
      if (deps.abort.aborted) return
      if (error instanceof FencedError) {
        logger.warn({ partition: partitionKey(partition) }, 'partition was taken by another process')
        state.phase = 'standby'
        return
      }
      state.fail(error)
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) attempt = 0
      const waitMs = retryDelayMs(attempt)
      logger.error({ err: error, partition: partitionKey(partition), attempt, waitMs }, 'partition starts over')
      await pause(waitMs, stop)
    }
  }
}
