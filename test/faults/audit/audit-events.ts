import { scanDeadLetters } from '../../../platform/dead-letters/read-dead-letters.ts'
import { describeRows } from '../../../schema/wire/native-block.ts'
import { decodeFrame } from '../../../schema/wire/frame-codec.ts'
import { frameOf } from '../../../schema/wire/frame-message.ts'
import type { LoadLedger, LoadPhase } from '../load-ledger.ts'
import { SDK_DISTINCT_ID } from '../kinds/outage-faults.ts'
import type { FaultSystem } from '../system/fault-system.ts'
import { LATE_EVENT } from '../kinds/event-faults.ts'
import { FLOOD_EVENT } from '../kinds/name-faults.ts'

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
  /** A few uuids of the wrong events, to find the cause. */
  examples: string[]
}

const EXAMPLES = 10

/**
 * Compares what the clients know with `events` (without FINAL) and the dead letters, uuid by uuid.
 *
 * @param options.isReplayed  All dead letters were replayed, so that one left beside a stored event is a copy too many.
 *   Before, an event with a dead letter that is sent again is stored, or gets another letter.
 */
export async function auditEvents (
  system: Pick<FaultSystem, 'select' | 'connection'>, ledger: LoadLedger, { isReplayed = false } = {}
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
    const copies = (stored.get(uuid) ?? 0) + (isReplayed ? lettersOfIt : 0)
    stored.delete(uuid)
    if (lettersOfIt > 0) add(audit.deadLettered, phase, lettersOfIt)
    if (copies > 1) {
      add(audit.duplicated, phase, copies - 1)
      complain(`duplicated in ${phase?.name ?? 'no phase'}`, uuid)
    }
    if (copies + lettersOfIt === 0 && phase !== null) {
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
export async function readStored ({ select }: Pick<FaultSystem, 'select'>): Promise<Map<string, number>> {
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
export async function readDeadLetters ({ connection }: Pick<FaultSystem, 'connection'>): Promise<Map<string, number>> {
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

interface Counts {
  event: string
  rows: number
  volume: number
  byProperty: number
}

/** A property that every event of the load has. */
const PROPERTY = 'index'

/**
 * Compares everything that is counted beside `events` with it: the volumes by day, the properties by event, and the
 * definitions in Postgres.
 *
 * @returns what differs, one line each.
 */
export async function auditCounts ({ select, sql }: Pick<FaultSystem, 'select' | 'sql'>): Promise<string[]> {
  const counts = await select<Counts>(
    `SELECT event, toUInt32(sum(rows)) AS rows, toUInt32(sum(volume)) AS volume, toUInt32(sum(by_property)) AS byProperty
     FROM (
       SELECT toString(event) AS event, count() AS rows, 0 AS volume, 0 AS by_property FROM events GROUP BY event
       UNION ALL
       SELECT toString(event), 0, sum(volume), 0 FROM event_volumes_by_day GROUP BY event
       UNION ALL
       SELECT toString(event), 0, 0, sum(count) FROM event_property_counts
       WHERE kind = 'event' AND property = '${PROPERTY}' GROUP BY event
     ) WHERE NOT startsWith(event, {flood:String}) GROUP BY event ORDER BY event`, { flood: FLOOD_EVENT })
  const definitions = await sql<{ name: string, volume_30_day: number }[]>`
    SELECT name, volume_30_day FROM event_definitions`
  const defined = new Map(definitions.map((row) => [row.name, row.volume_30_day]))
  const differences = counts.flatMap(({ event, rows, volume, byProperty }) => [
    ...volume === rows ? [] : [`${event}: ${rows} rows, but a volume of ${volume}`],
    ...byProperty === rows ? [] : [`${event}: ${rows} rows, but property ${PROPERTY} ${byProperty} times`],
    ...event === LATE_EVENT || defined.get(event) === rows ? [] : [`${event}: ${rows} rows, but its definition says ${defined.get(event)}`]
  ])
  const [sum] = await select<{ events: number, volumes: number }>(
    `SELECT toUInt32((SELECT count() FROM events)) AS events,
       toUInt32((SELECT sum(volume) FROM event_volumes_by_day)) AS volumes`)
  if (sum?.events !== sum?.volumes) differences.push(`${sum?.events} events, but volumes sum up to ${sum?.volumes}`)
  return [...differences, ...await auditPersons({ select, sql })]
}

/** The first event of each batch sets a property, so its sender is a person. */
async function auditPersons ({ select, sql }: Pick<FaultSystem, 'select' | 'sql'>): Promise<string[]> {
  const senders = await select<{ id: string }>(
    "SELECT DISTINCT distinct_id AS id FROM events WHERE JSONHas(properties, '$set')")
  const known = await sql<{ distinct_id: string }[]>`SELECT distinct_id FROM person_distinct_ids`
  const persons = new Set(known.map((row) => row.distinct_id))
  const missing = senders.filter(({ id }) => !persons.has(id))
  return missing.length === 0 ? [] : [`${missing.length} distinct ids set person properties, but have no person`]
}

/**
 * Removes one acknowledged event behind the system's back, and stores another one a second time. The comparison that
 * follows must tell both; one that does not is worth nothing.
 */
export async function tamper ({ command }: Pick<FaultSystem, 'command'>, ledger: LoadLedger): Promise<void> {
  const [removed, repeated] = findAcknowledged(ledger, 2)
  await command(`ALTER TABLE events DELETE WHERE uuid = '${removed}' SETTINGS mutations_sync = 2`)
  // A copy that is equal in all columns of the order could be merged away before it is looked for; and the books count
  // by minute, in which one too many and one too few are no difference.
  await command(`INSERT INTO events SELECT * REPLACE(concat(distinct_id, ' again') AS distinct_id, received_at + 120 AS received_at)
    FROM events WHERE uuid = '${repeated}'`)
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
