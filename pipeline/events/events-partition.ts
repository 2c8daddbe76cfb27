/** Runs a partition of events, one session after the other. */
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import { claimPartition, releasePartition } from '../stream/partition-lease.ts'
import { FencedError, type PartitionRecords } from '../stream/partition-records.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import { runSessions } from '../stream/partition-supervisor.ts'
import type { DuplicateFilters } from './duplicates/duplicate-filter.ts'
import { openEventsReader, type EventsReader } from './events-reader.ts'
import { PartitionSession } from './partition-session.ts'
import type { SessionDeps } from './session-deps.ts'

/** Interval of asking the server for the lag, in milliseconds. */
const PENDING_INTERVAL_MS = 3000

/** What a partition needs from its process. */
export interface PartitionDeps extends SessionDeps {
  /** Id of this process in partition records. */
  owner: string
  records: PartitionRecords
  isAlive: (owner: string) => boolean
  duplicateFilters: DuplicateFilters
}

/**
 * Writes one partition until it is stopped or belongs to another process. Each session starts from the partition's
 * record, which is the same way that a new owner takes.
 */
export async function runEventsPartition (deps: PartitionDeps): Promise<void> {
  let isUnanswered = false
  const replace: PartitionRecords['replace'] = async (...change) => await deps.records.replace(...change)
    .finally(() => { isUnanswered = false })
    .catch((err: unknown) => {
      isUnanswered = !(err instanceof FencedError)
      throw err
    })
  await runSessions(deps, async () => await runPartitionSession({ ...deps, records: { ...deps.records, replace } }))
  deps.duplicateFilters.close(deps.partition)
  // Also when it was refused, or has another owner: the record may name this process, or will when a claim under way is
  // stored, and if the partition falls to another process by then, nobody would write it.
  await releasePartition({ ...deps, isClaimUnderWay: deps.stop.aborted || isUnanswered })
}

/**
 * One session of a partition: claim it, repeat the batch range that was under way, then store new messages, until
 * stopped.
 *
 * @throws {FencedError} when the partition went to another owner; anything else that a fresh session may overcome.
 */
async function runPartitionSession (deps: PartitionDeps): Promise<void> {
  const { partition, state } = deps
  const claimed = await claimPartition(partition, { ...deps, onTakeOver: () => deps.duplicateFilters.close(partition) })
  if (claimed === null) {
    state.phase = 'standby'
    return
  }
  if (claimed.isNewLife) {
    const { stream, done } = claimed.lease.record
    deps.logger.error({ partition: state.key, stream, done }, 'stream sequence went backwards (stream re-created or truncated); the record of the partition is reset')
  }
  let reader: EventsReader | null = null
  let pending: IntervalLoop | undefined
  try {
    const filter = await deps.duplicateFilters.open(partition)
    const target = await deps.store.readTarget()
    const opened = reader = await openEventsReader(deps.connection, partition, {
      maxBytes: deps.limits.maxBytes,
      onDelay: (seconds) => deps.metrics.deliverySeconds.observe({ partition: state.key }, seconds)
    })
    const run = async (): Promise<void> => await refreshPending(opened, state)
    pending = runAtIntervals({ everyMs: PENDING_INTERVAL_MS, firstAfterMs: PENDING_INTERVAL_MS, run })
    await new PartitionSession(deps, { lease: claimed.lease, reader, filter, target }).run()
  } finally {
    // Not awaited: it only reads a number.
    void pending?.stop()
    reader?.close()
  }
}

async function refreshPending (reader: EventsReader, state: PartitionState): Promise<void> {
  try {
    state.pendingMessages = await reader.readPending()
    const { buffer, bufferedBytes } = reader
    if (state.pendingMessages === 0) state.pendingBytes = 0
    else if (buffer.length > 0) state.pendingBytes = Math.round(bufferedBytes / buffer.length * state.pendingMessages)
  } catch {
    // The lag is unknown for a moment. Whatever is wrong also fails the reads and writes of the partition.
  }
}
