/** Whether receipts say what became of the events of a run. */
import { randomUUID } from 'node:crypto'
import type { Receipt } from '../../../api/events/receipts/describe-receipt.ts'
import { findReceipt, type FindReceiptDeps, listIngestPlaces } from '../../../api/events/receipts/find-receipt.ts'
import { pause } from '../../../platform/intervals.ts'
import { shuffle, type Random } from '../../support/random.ts'
import type { LoadLedger, LoadPhase } from '../load-ledger.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'
import { readDeadLetters, readStored } from './audit-events.ts'

export interface ReceiptAudit {
  asked: number
  /** Wrong ones by phase in which the event was acknowledged; null: it was not. */
  wrong: Map<LoadPhase | null, number>
  /** A few of them. */
  examples: string[]
}

export interface AuditReceiptsOptions {
  /** Receipts to ask for. */
  count: number
  random: Random
  signal: AbortSignal
}

interface Asked {
  uuid: string
  expected: Receipt['fate']
  phase: LoadPhase | null
}

/** Receipts asked for at a time. */
const AT_ONCE = 8
const EXAMPLES = 10
/** The entry of a killed ingest process says for so long that events may be in it, at most, in milliseconds. */
const PLACES_TIMEOUT_MS = 60_000
/** Share of the receipts about events that nobody sent, and about drops: each of them means a search of the stream. */
const SHARE_OF_OTHERS = 0.05

/**
 * Draws events over their fates and compares each receipt with what the clients know and with what the stores hold: of
 * an acknowledged event that it is stored, or a dead letter; of one that was given up and of one that nobody sent that
 * it is unknown, with no place where it may be; of one that is no event that it was dropped.
 *
 * To be called when everything is drained.
 */
export async function auditReceipts (
  system: Pick<FaultSystem, 'stored' | 'connection' | 'sql' | 'select' | 'ingest'>, ledger: LoadLedger,
  { count, random, signal }: AuditReceiptsOptions
): Promise<ReceiptAudit> {
  const others = Math.ceil(count * SHARE_OF_OTHERS)
  await waitUntilNowhere(system, signal)
  const asked: Asked[] = [
    ...Array.from({ length: others }, (): Asked => ({ uuid: randomUUID(), expected: 'unknown', phase: null })),
    ...await dropEvents(system, others),
    ...shuffle(await listSent(system, ledger), random).slice(0, count - 2 * others)
  ]
  const audit: ReceiptAudit = { asked: asked.length, wrong: new Map(), examples: [] }
  const deps: FindReceiptDeps = {
    clickhouse: system.stored, nats: async (ask) => await ask(system.connection), sql: () => system.sql, now: Date.now
  }
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let next = asked.pop(); next !== undefined && !signal.aborted; next = asked.pop()) {
      const complaint = judge(await findReceipt({ projectId: 1, uuid: next.uuid }, deps), next.expected)
      if (complaint === null) continue
      audit.wrong.set(next.phase, (audit.wrong.get(next.phase) ?? 0) + 1)
      if (audit.examples.length < EXAMPLES) audit.examples.push(`${complaint}: ${next.uuid}`)
    }
  }))
  return audit
}

/** Waits until no ingest process says that it has events. If one goes on saying so, the receipts tell. */
async function waitUntilNowhere ({ connection }: Pick<FaultSystem, 'connection'>, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + PLACES_TIMEOUT_MS
  while (performance.now() < deadline && !signal.aborted) {
    if ((await listIngestPlaces(connection, Date.now())).length === 0) return
    await pause(200, signal)
  }
}

function judge (receipt: Receipt, expected: Receipt['fate']): string | null {
  if (receipt.fate !== expected) return `${receipt.fate}, not ${expected}`
  const { stored, may_be_in: places } = receipt
  if (places !== null && places.length > 0) return `unknown, but may be in ${JSON.stringify(places)}`
  if (stored !== null && stored.received_by.length === 0) return 'stored, but by no known insert'
  return null
}

/** What was sent, with the fate that it must have. An event that is both stored and a dead letter is stored. */
async function listSent (
  system: Pick<FaultSystem, 'connection' | 'select'>, ledger: LoadLedger
): Promise<Asked[]> {
  const stored = await readStored(system)
  const letters = await readDeadLetters(system)
  return [...ledger.uuids()].map((uuid) => {
    const phase = ledger.phaseOf(uuid) ?? null
    if (stored.has(uuid)) return { uuid, expected: 'stored', phase }
    if (letters.has(uuid)) return { uuid, expected: 'dead_letter', phase }
    // Acknowledged and nowhere: it is lost, and must not be hidden here.
    return { uuid, expected: phase === null ? 'unknown' : 'stored', phase }
  })
}

/** Sends invalid events, and waits until their warnings are stored. */
async function dropEvents (
  { ingest, select }: Pick<FaultSystem, 'ingest' | 'select'>, count: number
): Promise<Asked[]> {
  const uuids = Array.from({ length: count }, () => randomUUID())
  const body = JSON.stringify({ api_key: FAULT_PROJECT_KEY, batch: uuids.map((uuid) => ({ uuid, event: '', distinct_id: 'd' })) })
  const response = await fetch(`http://127.0.0.1:${ingest[0].port}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body
  })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`the batch of bad events was answered with ${response.status}`)
  const deadline = performance.now() + 60_000
  for (;;) {
    const [found] = await select<{ dropped: number }>(
      "SELECT toUInt32(uniqExact(uuid)) AS dropped FROM event_traces WHERE kind = 'dropped'")
    if ((found?.dropped ?? 0) >= count) break
    if (performance.now() > deadline) throw new Error(`only ${found?.dropped} of ${count} drops are recorded after a minute`)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  return uuids.map((uuid) => ({ uuid, expected: 'dropped', phase: null }))
}
