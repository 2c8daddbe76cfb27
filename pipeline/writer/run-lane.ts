import { FencedError } from '../lanes/lane-records.ts'
import { laneKey } from '../lanes/lane-record.ts'
import { releaseLane } from '../lanes/release-lane.ts'
import { pause, retryDelayMs } from '../../platform/retry-delay.ts'
import { runLaneSession, type LaneDeps } from './run-lane-session.ts'

/** A session that lasted so long, in milliseconds, was healthy: the next failure starts with a short pause again. */
const HEALTHY_AFTER_MS = 30_000

/**
 * Writes one lane until it is stopped or belongs to another process. Whatever goes wrong ends the session; the next
 * one starts from the lane's record, which is the same way that a new owner takes.
 *
 * @param deps.stop    Finish what was begun, release the lane and return.
 * @param deps.abort   Abandon the running insert; the next owner repeats the recorded cut.
 * @param deps.giveUp  The process ends: return although the lane could not be released.
 */
export async function runLane (deps: LaneDeps): Promise<void> {
  await runSessions(deps)
  if (deps.stop.aborted) await releaseLane(deps)
}

async function runSessions (deps: LaneDeps): Promise<void> {
  const { lane, logger, state, stop } = deps
  for (let attempt = 0; !stop.aborted; attempt++) {
    const startedAt = performance.now()
    try {
      await runLaneSession(deps)
      if (state.phase === 'elsewhere') return
    } catch (error) {
      if (deps.abort.aborted) return
      if (error instanceof FencedError) {
        logger.warn({ lane: laneKey(lane) }, 'lane was taken by another process')
        state.phase = 'elsewhere'
        return
      }
      state.fail(error)
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) attempt = 0
      const waitMs = retryDelayMs(attempt)
      logger.error({ err: error, lane: laneKey(lane), attempt, waitMs }, 'lane starts over')
      await pause(waitMs, stop)
    }
  }
}
