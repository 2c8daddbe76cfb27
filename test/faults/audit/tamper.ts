import { type LoadLedger } from '../load/load-ledger.ts'
import { type FaultSystem } from '../system/start-fault-system.ts'

/**
 * Removes one acknowledged event behind the system's back, and stores another one a second time. The comparison that
 * follows must tell both; one that does not is worth nothing.
 */
export async function tamper ({ command }: Pick<FaultSystem, 'command'>, ledger: LoadLedger): Promise<void> {
  const [removed, repeated] = findAcknowledged(ledger, 2)
  await command(`ALTER TABLE events DELETE WHERE uuid = '${removed}' SETTINGS mutations_sync = 2`)
  // A copy that is equal in all columns of the order could be merged away before it is looked for.
  await command(`INSERT INTO events SELECT * REPLACE(concat(distinct_id, ' again') AS distinct_id) FROM events
    WHERE uuid = '${repeated}'`)
}

function findAcknowledged (ledger: LoadLedger, count: number): string[] {
  const found: string[] = []
  for (const uuid of ledger.uuids()) {
    if (found.length === count) break
    if (ledger.phaseOf(uuid) != null) found.push(uuid)
  }
  if (found.length < count) throw new Error(`fewer than ${count} events were acknowledged`)
  return found
}
