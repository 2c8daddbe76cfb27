import { type Cut } from '../../lanes/lane-record.ts'
import { type LaneState } from '../../lanes/lane-state.ts'
import { type PipelineMetrics } from '../../metrics.ts'
import { type LaneMessage } from '../read/lane-message.ts'

/** Counts a confirmed insert: its rows, those that were left out of it, and its time in milliseconds. */
export function countStored ({ metrics, state }: { metrics: PipelineMetrics, state: LaneState }, stored: {
  messages: readonly LaneMessage[], cut: Cut, ms: number
}): void {
  const { messages, cut } = stored
  const lane = { lane: state.key }
  const leftOut = countLeftOut(cut)
  const meant = cut.rows === undefined
    ? messages.reduce((sum, message) => sum + message.rows, 0)
    : cut.rows[1] - cut.rows[0]
  metrics.leftOutRows.inc(lane, leftOut)
  metrics.storedRows.inc(lane, meant - leftOut)
  metrics.storedBatches.inc(lane)
  metrics.batchRows.observe(lane, meant - leftOut)
  metrics.batchBytes.observe(lane, messages.reduce((sum, { payload }) => sum + payload.length, 0))
  const receivedAt = messages.reduce((oldest, message) => Math.min(oldest, message.receivedAt), Infinity)
  metrics.storedAgeSeconds.observe(lane, Math.max(0, Date.now() - receivedAt) / 1000)
  metrics.insertSeconds.observe(lane, stored.ms / 1000)
}

/** Rows of the cut that were left out; of a split message only those within its piece. */
function countLeftOut ({ leftOut, rows: [from, to] = [0, Infinity] }: Cut): number {
  let rows = 0
  for (const [, ranges] of leftOut) {
    for (let i = 0; i < ranges.length; i += 2) {
      rows += Math.max(0, Math.min(ranges[i + 1]!, to) - Math.max(ranges[i]!, from))
    }
  }
  return rows
}
