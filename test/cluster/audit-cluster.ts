import { auditCounts } from '../faults/audit/audit-counts.ts'
import { auditEvents } from '../faults/audit/audit-events.ts'
import { type LoadLedger } from '../faults/load/load-ledger.ts'
import { waitUntilDrained } from '../faults/audit/wait-until-recovered.ts'
import { waitFor } from '../support/wait-for.ts'
import { type ClusterSystem } from './start-cluster-system.ts'

/** The definitions follow the views within seconds. */
const COUNTS_TIMEOUT_MS = 20_000

/**
 * Waits until everything is stored, and compares it with what the clients know: uuid by uuid, then volumes, properties,
 * definitions and persons.
 *
 * @returns what differs, one line each.
 */
export async function auditCluster (system: ClusterSystem, ledger: LoadLedger): Promise<string[]> {
  await waitUntilDrained(system, { timeoutMs: 60_000, signal: new AbortController().signal })
  const { lost, duplicated, deadLettered, strangers, examples } = await auditEvents(system, ledger)
  const sum = (counts: ReadonlyMap<unknown, number>): number => [...counts.values()].reduce((a, b) => a + b, 0)
  let differences: string[] = []
  await waitFor(async () => {
    differences = await auditCounts(system)
    return differences.length === 0
  }, { timeoutMs: COUNTS_TIMEOUT_MS, everyMs: 250 }).catch(() => {})
  return [
    ...Object.entries({ lost: sum(lost), duplicated: sum(duplicated), deadLettered: sum(deadLettered), strangers })
      .filter(([, count]) => count > 0).map(([what, count]) => `${count} events ${what}`),
    ...examples,
    ...differences
  ]
}
