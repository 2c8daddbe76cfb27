import { HEADER } from '../../../schema/wire/streams.ts'
import type { PartitionLease } from '../../stream/partition-lease.ts'
import type { BatchRange } from '../../stream/partition-records.ts'
import { buildFrames } from '../batch-range.ts'
import type { PartitionMessage } from '../events-reader.ts'
import type { SessionDeps } from '../session-deps.ts'
import { InsertError } from './insert-frames.ts'
import { storeBatchRange, type StoreOutcome } from './store-batch-range.ts'

/** A recorded batch range, its messages, and its token. */
export interface PlannedInsert {
  messages: readonly PartitionMessage[]
  range: BatchRange
  token: string
}

/** As of `storeBatchRange`; or a frame that must be cut cannot be read: ClickHouse would refuse it as well. */
export type InsertOutcome = StoreOutcome | { kind: 'unreadable', error: InsertError }

/** Inserts the messages of a batch range, and shows meanwhile how that goes. */
export async function insertMessages (
  { store, state, metrics, logger, stop, abort }: SessionDeps, lease: PartitionLease,
  { messages, range, token }: PlannedInsert
): Promise<InsertOutcome> {
  const frames = await buildFrames(messages, range)
    .catch((cause: unknown) => new InsertError('the frame of a message cannot be read', 0, cause))
  if (frames instanceof InsertError) return { kind: 'unreadable', error: frames }
  state.insertingSince = Date.now()
  const requests = messages.map(({ headers }) => headers[HEADER.request] ?? '')
  const outcome = await storeBatchRange({
    store, lease, logger, stop, abort,
    insert: { frames, token, requests, settingsVersion: range.settings },
    onRetry: (error) => {
      state.phase = 'retrying'
      state.lastError = error.message
      metrics.insertRetries.inc({ partition: state.key, code: error.clickhouseCode })
    }
  }).finally(() => {
    state.insertingSince = 0
    state.insertedAt = Date.now()
  })
  if (outcome.kind === 'refused') metrics.refusedBatches.inc({ partition: state.key, code: outcome.error.clickhouseCode })
  return outcome
}
