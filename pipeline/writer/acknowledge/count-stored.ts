import { type BatchRange } from '../../partitions/partition-record.ts'
import { type PartitionState } from '../../partitions/partition-state.ts'
import { type PipelineMetrics } from '../../metrics.ts'
import { type PartitionMessage } from '../read/partition-message.ts'

/** Counts a confirmed insert: its rows, those that were left out of it, and its time in milliseconds. */
export function countStored ({ metrics, state }: { metrics: PipelineMetrics, state: PartitionState }, stored: {
  messages: readonly PartitionMessage[], range: BatchRange, ms: number
}): void {
  const { messages, range } = stored
  const partition = { partition: state.key }
  const leftOut = countLeftOut(range)
  const meant = range.rows === undefined
    ? messages.reduce((sum, message) => sum + message.rows, 0)
    : range.rows[1] - range.rows[0]
  metrics.leftOutRows.inc(partition, leftOut)
  metrics.storedRows.inc(partition, meant - leftOut)
  metrics.storedBatches.inc(partition)
  metrics.batchRows.observe(partition, meant - leftOut)
  metrics.batchBytes.observe(partition, messages.reduce((sum, { payload }) => sum + payload.length, 0))
  const receivedAt = messages.reduce((oldest, message) => Math.min(oldest, message.receivedAt), Infinity)
  metrics.storedAgeSeconds.observe(partition, Math.max(0, Date.now() - receivedAt) / 1000)
  metrics.insertSeconds.observe(partition, stored.ms / 1000)
}

/** Rows of the batch range that were left out; of a split message only those within its piece. */
function countLeftOut ({ leftOut, rows: [from, to] = [0, Infinity] }: BatchRange): number {
  let rows = 0
  for (const [, ranges] of leftOut) {
    for (let i = 0; i < ranges.length; i += 2) {
      rows += Math.max(0, Math.min(ranges[i + 1]!, to) - Math.max(ranges[i]!, from))
    }
  }
  return rows
}
