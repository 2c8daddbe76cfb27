import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { pause } from '../../../platform/intervals.ts'
import type { TimeWindow } from '../window-task.ts'

/** The books are up to ten seconds behind the rows. */
const [WAIT_MS, POLL_MS] = [12_000, 1000]

const FIELDS = ['accepted', 'replayed', 'duplicates', 'dead_lettered', 'deleted', 'dropped', 'balance'] as const

/**
 * The books of a window: what became of the events that were received in it. Waits a little while they know of fewer
 * rows than there are.
 */
export async function readLedgerLine (
  clickhouse: ClickHouse, projectId: number, { from, to }: TimeWindow, stored: number, signal: AbortSignal
): Promise<Record<string, number>> {
  const deadline = performance.now() + WAIT_MS
  for (;;) {
    const [row = {}] = await queryRows<Record<string, string>>(clickhouse, `
      SELECT ${FIELDS.map((field) => `sum(${field}) AS total_${field}`).join(', ')} FROM ledger
      WHERE project_id = {project: UInt32} AND minute >= toDateTime({from: UInt32}) AND minute < toDateTime({to: UInt32})`,
    { project: projectId, from: from.getTime() / 1000, to: to.getTime() / 1000 })
    const line = Object.fromEntries(FIELDS.map((field) => [field, Number(row[`total_${field}`])]))
    const isBehind = Number(line['accepted']) > 0 && Number(line['balance']) < stored
    if (!isBehind || performance.now() > deadline || signal.aborted) return line
    await pause(POLL_MS, signal)
  }
}
