import { type Logger } from '../../platform/logger.ts'
import { pause, retryDelayMs } from '../../platform/retry-delay.ts'
import { laneKey, type Lane } from './lane-record.ts'
import { FencedError, type LaneRecords } from './lane-records.ts'

export interface ReleaseLaneOptions {
  lane: Lane
  /** This process. */
  owner: string
  records: LaneRecords
  logger: Logger
  /** The process ends: the others see that it is gone. */
  giveUp: AbortSignal
}

/**
 * Takes the name of this process out of the record of a lane that it writes no more. The cut that may be under way
 * stays in it: the next owner repeats it.
 *
 * It tries for as long as NATS is away. Nobody takes a lane from a living process, so a lane that was given up and
 * still bears its name would stand still until this process ends.
 */
export async function releaseLane (options: ReleaseLaneOptions): Promise<void> {
  const { giveUp } = options
  if (giveUp.aborted) return
  const { promise: givenUp, resolve } = Promise.withResolvers<void>()
  const onAbort = (): void => resolve()
  giveUp.addEventListener('abort', onAbort)
  // Not even the question that is under way is waited for.
  await Promise.race([keepReleasing(options), givenUp])
  giveUp.removeEventListener('abort', onAbort)
}

async function keepReleasing ({ lane, owner, records, logger, giveUp }: ReleaseLaneOptions): Promise<void> {
  for (let attempt = 0; !giveUp.aborted; attempt++) {
    try {
      const { record, revision } = await records.read(lane)
      if (record !== null && record.owner === owner) await records.replace(lane, { ...record, owner: '' }, revision)
      return
    } catch (err) {
      if (err instanceof FencedError) return
      logger.warn({ err, lane: laneKey(lane), attempt }, 'lane could not be released, will try again')
      await pause(retryDelayMs(attempt), giveUp)
    }
  }
}
