import { setTimeout as delay } from 'node:timers/promises'
import { replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { auditBooks } from './audit/audit-books.ts'
import { auditCounts, auditEvents, type EventAudit } from './audit/audit-events.ts'
import { auditReceipts } from './audit/audit-receipts.ts'
import { FaultUnavailableError, type Expectation, type Fault } from './kinds/fault.ts'
import type { FaultReport, FaultRow } from './audit/fault-report.ts'
import { describeFailures, type LoadLedger, type LoadPhase } from './load-ledger.ts'
import { shuffle, type Random } from '../support/random.ts'
import { tamperWithWatermark, watchWatermark, type WatermarkAudit } from './audit/watch-watermark.ts'
import { startSchemaChanges, type SchemaChanges } from './schema-changes.ts'
import { startSdkLoad, type SdkLoad } from './sdk-load.ts'
import type { SmallDisk } from './system/small-disk.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from './system/fault-system.ts'
import { waitUntilDrained, waitUntilRecovered } from './audit/wait-until-recovered.ts'

export interface RunFaultsOptions {
  faults: readonly Fault[]
  /** How long faults are injected, in milliseconds; recovery of the last one and the audit come on top. */
  durationMs: number
  /** Each fault is injected once before the time is looked at. */
  eachOnce: boolean
  /** Faults last as long as in a long run. */
  isLong: boolean
  eventsPerSecond: number
  /** Share of batches that are an import. Default 0. */
  historicalShare?: number
  /** Receipts to ask for in the end. */
  receipts?: number
  random: Random
  disk: SmallDisk | null
  signal: AbortSignal
  /** Called with human-readable progress. */
  onProgress: (line: string) => void
  /** Corrupts stored events before the comparison, to show that it fails. */
  tamper?: (system: FaultSystem, ledger: LoadLedger) => Promise<void>
  /** The watermark says `now` all the time: anyone who doubts that this would be noticed can see it. */
  tamperWatermark?: boolean
}

const RECOVERY_TIMEOUT_MS = 120_000
const DRAIN_TIMEOUT_MS = 180_000
/** The roll-up of definitions follows within seconds. */
const COUNTS_TIMEOUT_MS = 60_000
/** Receipts that are asked for in the end: as many as a short run has time for. */
const RECEIPTS = 200

/** Calm between two faults of a long run and of a short one, so that the next one meets a system at work. */
const CALM_MS = { long: 1000, short: 250 }

/** Interval between two rounds of claims while the watermark is tampered with, in milliseconds. */
const TAMPERED_CLAIM_MS = 200

/**
 * Injects faults in random order under load for the given time, while a schema of the load changes, heals everything,
 * drains, and compares the clients' records with the stored events.
 */
export async function runFaults (system: FaultSystem, options: RunFaultsOptions): Promise<FaultReport> {
  const { faults, random, disk, signal, onProgress } = options
  // Before the first event: each is checked by some version.
  const schemas = await startSchemaChanges(system)
  const load = startSdkLoad({
    ports: system.ingest.map(({ port }) => port), apiKey: FAULT_PROJECT_KEY,
    eventsPerSecond: options.eventsPerSecond, historicalShare: options.historicalShare ?? 0, random
  })
  // What is tampered with has to be heard, however short the run is.
  const claimMs = options.tamperWatermark === true ? TAMPERED_CLAIM_MS : undefined
  const watermark = watchWatermark(system, load.ledger, claimMs)
  const tampering = options.tamperWatermark === true ? tamperWithWatermark(system) : null
  const startedAt = performance.now()
  const rows = new Map<string, FaultRow>()
  for (const fault of faults) rows.set(fault.name, newRow(fault, await fault.unavailable?.(disk) ?? null))
  const expectations: Expectation[] = []
  const problems: string[] = []
  try {
    // The first fault meets a system at work, too.
    await waitUntilRecovered(system, load, { timeoutMs: RECOVERY_TIMEOUT_MS, signal })
    for (const fault of createSchedule(faults.filter((each) => rows.get(each.name)?.notRun === null), options)) {
      const row = rows.get(fault.name) as FaultRow
      if (row.notRun !== null) continue
      await runOnce(fault, { system, load, schemas, row, expectations, problems, options })
      signal.throwIfAborted()
    }
  } finally {
    await schemas.stop()
    await load.stop()
  }
  const loadSeconds = (performance.now() - startedAt) / 1000
  await tampering?.stop()
  onProgress('draining')
  await waitUntilDrained(system, { timeoutMs: DRAIN_TIMEOUT_MS, signal })
    .catch((error: unknown) => problems.push(`not drained: ${String(error)}`))
  await watermark.stop()
  const passed = await watermark.compare()
  await options.tamper?.(system, load.ledger)
  onProgress('comparing')
  const audit = await auditEvents(system, load.ledger)
  attribute(rows, audit, passed)
  const replayed = await replayRefused(system, { signal })
  const after = replayed === 0 ? audit : await auditEvents(system, load.ledger, { isReplayed: true })
  onProgress('asking for receipts')
  const receipts = await auditReceipts(system, load.ledger, { count: options.receipts ?? RECEIPTS, random, signal })
  for (const row of rows.values()) row.wrongReceipts = countOf(receipts.wrong, row.phases)
  for (const expectation of expectations) {
    const complaint = await expectation()
    if (complaint !== null) problems.push(complaint)
  }
  // What was spoiled on purpose does not become equal.
  problems.push(...await auditCountsUntilEqual(system, { signal, timeoutMs: options.tamper ? 0 : COUNTS_TIMEOUT_MS }))
  const ofSchemas = await schemas.audit()
  problems.push(...ofSchemas.problems)
  // It sends events. One that is stored between two readings of the books would stand in for one that is missing.
  await waitUntilDrained(system, { timeoutMs: DRAIN_TIMEOUT_MS, signal })
    .catch((error: unknown) => problems.push(`not drained: ${String(error)}`))
  const books = await auditBooks(system)
  problems.push(...books.problems)
  return {
    rows: [...rows.values()],
    schemas: ofSchemas,
    books,
    eventsPerSecond: load.ledger.acknowledgedEvents / loadSeconds,
    acknowledged: load.ledger.acknowledgedEvents,
    sent: load.ledger.sentEvents,
    givenUp: load.ledger.givenUp,
    audits: replayed === 0 ? [audit] : [audit, after],
    watermark: passed,
    mayGoBack: system.clickhouseCluster !== null,
    receipts,
    replayed,
    problems,
    surprises: system.surprises
  }
}

/**
 * All faults in random order, then again in another, for as long as there is time. In the first round one that cannot
 * be over in time gives way to shorter ones: of a time that is too short, as many faults as possible get a part.
 */
export function * createSchedule (
  faults: readonly Fault[],
  { random, durationMs, eachOnce, isLong }: Pick<RunFaultsOptions, 'random' | 'durationMs' | 'eachOnce' | 'isLong'>,
  now: () => number = () => performance.now()
): Generator<Fault> {
  const endsAt = now() + durationMs
  for (let round = 0; faults.length > 0; round++) {
    for (const fault of shuffle(faults, random)) {
      const isOverInTime = now() + fault.lastsMs[isLong ? 0 : 1] < endsAt
      if ((eachOnce && round === 0) || isOverInTime) yield fault
      else if (round > 0) return
    }
    if (now() > endsAt) return
  }
}

interface RunOnce {
  system: FaultSystem
  load: SdkLoad
  schemas: SchemaChanges
  row: FaultRow
  expectations: Expectation[]
  problems: string[]
  options: RunFaultsOptions
}

async function runOnce (
  fault: Fault, { system, load, schemas, row, expectations, problems, options }: RunOnce
): Promise<void> {
  const { random, disk, signal, onProgress, isLong } = options
  const { ledger } = load
  const lastsMs = fault.lastsMs[isLong ? 0 : 1]
  const phase = ledger.begin(fault.name)
  const changesBefore = schemas.made
  const notes: string[] = []
  let healedAt: number | undefined
  try {
    const heal = await fault.inject({
      system, ledger, random, lastsMs, disk,
      note: (text) => notes.push(text),
      expect (expectation) {
        expectations.push(async () => {
          const complaint = await expectation()
          return complaint === null ? null : `${fault.name}: ${complaint}`
        })
      }
    })
    // Stopping only ends it early: it is healed in any case.
    await delay(lastsMs, undefined, { signal }).catch(() => {})
    healedAt = performance.now()
    await heal()
    await waitUntilRecovered(system, load, { timeoutMs: RECOVERY_TIMEOUT_MS, signal })
    row.recoveryMs = Math.max(row.recoveryMs, performance.now() - healedAt)
    // The load goes on: nothing that is under way may look like drift.
    const books = await auditBooks(system)
    row.drift += books.drift
    problems.push(...books.problems.map((problem) => `${fault.name}: ${problem}`))
  } catch (error) {
    if (error instanceof FaultUnavailableError) {
      row.notRun = error.message
      ledger.begin('calm')
      return
    }
    problems.push(`${fault.name} ${healedAt === undefined ? 'could not be injected' : 'did not recover'}: ${String(error)}`)
  }
  row.injected++
  row.schemaChanges += schemas.made - changesBefore
  row.acknowledged += phase.acknowledged
  row.retries += phase.retries
  row.phases.push(phase)
  onProgress(`${fault.name}${notes.map((note) => ` (${note})`).join('')}: ${phase.acknowledged} events acknowledged, ` +
    `${phase.retries} retries${phase.retries === 0 ? '' : ` (${describeFailures(phase)})`}, longest stall ${seconds(phase.longestStallMs)}, ` +
    `recovered in ${seconds(healedAt === undefined ? 0 : performance.now() - healedAt)}`)
  row.longestStallMs = Math.max(row.longestStallMs, phase.longestStallMs)
  ledger.begin('calm')
  await delay(isLong ? CALM_MS.long : CALM_MS.short, undefined, { signal }).catch(() => {})
}

function seconds (ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

function newRow ({ name, what }: Fault, notRun: string | null): FaultRow {
  return {
    name, what, notRun, injected: 0, acknowledged: 0, retries: 0, lost: 0, duplicated: 0,
    deadLettered: 0, drift: 0, passed: 0, wrongReceipts: 0, schemaChanges: 0, longestStallMs: 0, recoveryMs: 0,
    phases: []
  }
}

/** Counts each difference where its event was acknowledged. */
function attribute (rows: ReadonlyMap<string, FaultRow>, audit: EventAudit, watermark: WatermarkAudit): void {
  for (const row of rows.values()) {
    row.lost = countOf(audit.lost, row.phases)
    row.duplicated = countOf(audit.duplicated, row.phases)
    row.deadLettered = countOf(audit.deadLettered, row.phases)
    row.passed = countOf(watermark.passed, row.phases)
  }
}

function countOf (counts: ReadonlyMap<LoadPhase | null, number>, phases: readonly LoadPhase[]): number {
  return phases.reduce((total, phase) => total + (counts.get(phase) ?? 0), 0)
}

/** Replays events that ClickHouse refused for a cause that has been fixed. */
async function replayRefused (system: FaultSystem, { signal }: { signal: AbortSignal }): Promise<number> {
  const { replayed } = await replayDeadLetters(system.connection, { stage: 'writer', reason: 'refused' })
  if (replayed > 0) await waitUntilDrained(system, { timeoutMs: DRAIN_TIMEOUT_MS, signal })
  return replayed
}

async function auditCountsUntilEqual (
  system: FaultSystem, { signal, timeoutMs }: { signal: AbortSignal, timeoutMs: number }
): Promise<string[]> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const differences = await auditCounts(system)
    if (differences.length === 0 || performance.now() > deadline || signal.aborted) return differences
    await delay(500)
  }
}
