import { type Logger } from '../../platform/logger.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import { partitionKey, type Partition } from './partition-record.ts'
import { FencedError, type PartitionRecords } from './partition-records.ts'

export interface ReleasePartitionOptions {
  partition: Partition
  /** This process. */
  owner: string
  records: PartitionRecords
  logger: Logger
  /** The process ends: the others see that it is gone. */
  giveUp: AbortSignal
}

/**
 * Takes the name of this process out of the record of a partition that it writes no more. The batch range that may be
 * under way stays in it: the next owner repeats it.
 *
 * It tries for as long as NATS is unavailable. Nobody takes a partition from a living process, so a partition that was
 * given up and still bears its name would stand still until this process ends.
 */
export async function releasePartition (options: ReleasePartitionOptions): Promise<void> {
  const { giveUp } = options
  if (giveUp.aborted) return
  const { promise: givenUp, resolve } = Promise.withResolvers<void>()
  const onAbort = (): void => resolve()
  giveUp.addEventListener('abort', onAbort)
  // Not even the question that is under way is waited for.
  await Promise.race([keepReleasing(options), givenUp])
  giveUp.removeEventListener('abort', onAbort)
}

async function keepReleasing ({ partition, owner, records, logger, giveUp }: ReleasePartitionOptions): Promise<void> {
  for (let attempt = 0; !giveUp.aborted; attempt++) {
    try {
      const { record, revision } = await records.read(partition)
      if (record !== null && record.owner === owner) await records.replace(partition, { ...record, owner: '' }, revision)
      return
    } catch (err) {
      if (err instanceof FencedError) return
      logger.warn({ err, partition: partitionKey(partition), attempt }, 'partition could not be released, will try again')
      await pause(retryDelayMs(attempt), giveUp)
    }
  }
}
