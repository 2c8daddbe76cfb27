import { scanDeadLetters } from '../../../platform/dead-letters/read-dead-letters.ts'
import { describeRows } from '../../../platform/clickhouse/native-block.ts'
import { decodeFrame } from '../../../platform/clickhouse/frame-codec.ts'
import { frameOf } from '../../../schema/frame-message.ts'
import { type LoadLedger, type LoadPhase } from '../load/load-ledger.ts'
import { SDK_DISTINCT_ID } from '../kinds/outage-faults.ts'
import { type FaultSystem } from '../system/start-fault-system.ts'

/** What became of the events of the load. */
export interface EventAudit {
  /** Acknowledged, and neither in `events` nor in a dead letter; by phase of the acknowledgement. */
  lost: Map<LoadPhase, number>
  /** Rows too many, acknowledged or not; phase null for events that were never acknowledged. */
  duplicated: Map<LoadPhase | null, number>
  deadLettered: Map<LoadPhase | null, number>
  /** Rows in `events` that nobody sent. */
  strangers: number
  /** Never acknowledged, and stored once: allowed, the answer was lost. */
  unacknowledgedStored: number
  /** A few uuids of what is wrong, for anyone who searches the cause. */
  examples: string[]
}

const EXAMPLES = 10

/** Compares what the clients know with `events` (without FINAL) and the dead letters, uuid by uuid. */
export async function auditEvents (
  system: Pick<FaultSystem, 'select' | 'connection'>, ledger: LoadLedger
): Promise<EventAudit> {
  const stored = await readStored(system)
  const letters = await readDeadLetters(system)
  const audit: EventAudit = {
    lost: new Map(), duplicated: new Map(), deadLettered: new Map(), strangers: 0, unacknowledgedStored: 0, examples: []
  }
  const complain = (what: string, uuid: string): void => {
    if (audit.examples.length < EXAMPLES) audit.examples.push(`${what}: ${uuid}`)
  }
  for (const uuid of ledger.uuids()) {
    const phase = ledger.phaseOf(uuid) ?? null
    const lettersOfIt = letters.get(uuid) ?? 0
    const copies = (stored.get(uuid) ?? 0) + lettersOfIt
    stored.delete(uuid)
    if (lettersOfIt > 0) add(audit.deadLettered, phase, lettersOfIt)
    if (copies > 1) {
      add(audit.duplicated, phase, copies - 1)
      complain(`duplicated in ${phase?.name ?? 'no phase'}`, uuid)
    }
    if (copies === 0 && phase !== null) {
      add(audit.lost, phase, 1)
      complain(`lost in ${phase.name}`, uuid)
    }
    if (copies === 1 && phase === null) audit.unacknowledgedStored++
  }
  for (const [uuid, rows] of stored) {
    audit.strangers += rows
    complain('stored, but never sent', uuid)
  }
  return audit
}

function add<K> (counts: Map<K, number>, key: K, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count)
}

/** Rows in `events` by uuid, as `count()` sees them. */
async function readStored ({ select }: Pick<FaultSystem, 'select'>): Promise<Map<string, number>> {
  const stored = new Map<string, number>()
  // In parts: the answer of a long run has tens of megabytes.
  for (let part = 0; part < 16; part++) {
    const rows = await select<{ id: string, copies: number }>(
      `SELECT toString(uuid) AS id, toUInt32(count()) AS copies FROM events
       WHERE cityHash64(uuid) % 16 = {part:UInt8} AND NOT startsWith(distinct_id, {sdk:String}) GROUP BY uuid`,
      { part, sdk: SDK_DISTINCT_ID })
    for (const { id, copies } of rows) stored.set(id, copies)
  }
  return stored
}

/** Events in dead letters by uuid, be they dead-lettered alone or with their whole message. */
async function readDeadLetters ({ connection }: Pick<FaultSystem, 'connection'>): Promise<Map<string, number>> {
  const letters = new Map<string, number>()
  for await (const { letter, body } of scanDeadLetters(connection, { withBodies: true })) {
    for (const uuid of letter.uuid === null ? await readUuids(body, letter.rows) : [letter.uuid]) {
      add(letters, uuid, 1)
    }
  }
  return letters
}

async function readUuids (body: Uint8Array, rows: number | null): Promise<string[]> {
  try {
    return describeRows(await decodeFrame(frameOf(body, rows ?? 0))).map(({ uuid }) => String(uuid))
  } catch {
    // Broken bytes: a poisoned message, which has no event of the load in it.
    return []
  }
}
