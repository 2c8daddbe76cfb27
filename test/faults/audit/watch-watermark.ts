import { setTimeout as delay } from 'node:timers/promises'
import { CLAIM_SOURCES, type ClaimSource, createReadClaims } from './watermark-claims.ts'
import type { LoadLedger, LoadPhase } from '../load-ledger.ts'
import type { FaultSystem } from '../system/fault-system.ts'

/** Interval between two samples, in milliseconds. */
const SAMPLE_MS = 100

/** A sample that takes longer is given up: ClickHouse does not answer. */
const SAMPLE_TIMEOUT_MS = 5000

/** Interval between two rounds of claims, in milliseconds: each costs a look at all events. */
const CLAIM_MS = 2000

/** A watermark, and how many rows before it were visible when it was. */
interface Sample {
  /** Who said so: the view itself, or one who repeats it. */
  source: 'view' | ClaimSource
  /** Epoch milliseconds; null: nothing is proven yet. */
  through: number | null
  rows: number
  phase: LoadPhase
  /** Epoch milliseconds. */
  at: number
}

/** What was seen of the watermark. */
export interface WatermarkAudit {
  samples: number
  /** Samples in which the watermark was not where it had been before. */
  moves: number
  /** Samples that were below an earlier one. */
  wentBack: number
  /**
   * Samples that showed fewer rows before a watermark than an earlier sample of the same watermark: the watermark was
   * true, and a replica that had come back was read.
   */
  staleReads: number
  /** Samples before whose watermark something became visible later, by phase in which they were taken. */
  passed: Map<LoadPhase, number>
  /** Claims of those who repeat the watermark that were compared, and those that something passed. */
  claims: Map<ClaimSource, { compared: number, passed: number }>
  /** Of the worst of them, for anyone who searches the cause. */
  examples: string[]
}

/** One statement, whose watermark is read before the rows are. */
const SAMPLE = `
  WITH (SELECT max(complete_through) FROM watermarks WHERE project_id = 0) AS moment
  SELECT toFloat64(toUnixTimestamp64Milli(assumeNotNull(moment))) AS through, toUInt32(count()) AS rows
  FROM events WHERE received_at < assumeNotNull(moment)`

const COUNT_BEFORE = 'SELECT toUInt32(count()) AS rows FROM events WHERE received_at < fromUnixTimestamp64Milli({through: Int64})'

/**
 * Samples the watermark ten times a second until stopped, each time with the number of rows before it. An hour that is
 * complete must not change: in the end there must be as many rows before each of these watermarks. The same every two
 * seconds for what the API, the status and the metric say.
 *
 * @param claimMs  Interval between two rounds of claims.
 */
export function watchWatermark (system: FaultSystem, ledger: Pick<LoadLedger, 'phases'>, claimMs = CLAIM_MS): {
  stop: () => Promise<void>
  /** Compares with the stored events. Call it when everything is stored, and nothing was replayed. */
  compare: () => Promise<WatermarkAudit>
} {
  const samples: Sample[] = []
  const stopped = new AbortController()

  async function sample (): Promise<void> {
    const late = delay(SAMPLE_TIMEOUT_MS, null, { ref: false })
    const phase = ledger.phases.at(-1) as LoadPhase
    const rows = await Promise.race([system.select<{ through: number, rows: number }>(SAMPLE), late])
    const [row] = rows ?? []
    if (row === undefined) return
    const through = row.through === 0 ? null : row.through
    samples.push({ source: 'view', through, rows: row.rows, phase, at: Date.now() })
  }

  async function run (): Promise<void> {
    while (!stopped.signal.aborted) {
      const next = delay(SAMPLE_MS, undefined, { signal: stopped.signal }).catch(() => {})
      // ClickHouse is one of those that are broken.
      await sample().catch(() => {})
      await next
    }
  }

  const readClaims = createReadClaims(system)

  /** The rows are counted after the claim was heard: what comes later still is what it must not pass. */
  async function collectClaims (): Promise<void> {
    const phase = ledger.phases.at(-1) as LoadPhase
    for (const { source, through } of await readClaims()) {
      const late = delay(SAMPLE_TIMEOUT_MS, null, { ref: false })
      const [row] = await Promise.race([system.select<{ rows: number }>(COUNT_BEFORE, { through }), late]) ?? []
      if (row !== undefined) samples.push({ source, through, rows: row.rows, phase, at: Date.now() })
    }
  }

  async function runClaims (): Promise<void> {
    while (!stopped.signal.aborted) {
      await collectClaims().catch(() => {})
      await delay(claimMs, undefined, { signal: stopped.signal }).catch(() => {})
    }
  }

  const ended = Promise.all([run(), runClaims()])
  return {
    async stop () {
      stopped.abort()
      await ended
    },
    compare: async () => await compareSamples(system, samples)
  }
}

/** Samples compared by one statement. */
const PORTION = 100

async function compareSamples (
  { select }: Pick<FaultSystem, 'select'>, samples: readonly Sample[]
): Promise<WatermarkAudit> {
  const audit: WatermarkAudit = {
    samples: 0, moves: 0, wentBack: 0, staleReads: 0, passed: new Map(), examples: [],
    claims: new Map(CLAIM_SOURCES.map((source) => [source, { compared: 0, passed: 0 }]))
  }
  let highest = 0
  let before: number | null = null
  const known: (Sample & { through: number })[] = []
  for (const { source, through, rows, phase, at } of samples) {
    if (source !== 'view') {
      audit.claims.get(source)!.compared++
      if (through !== null) known.push({ source, through, rows, phase, at })
      continue
    }
    audit.samples++
    if (through !== before) audit.moves++
    before = through
    if (through === null) continue
    if (through < highest) {
      audit.wentBack++
      if (audit.examples.length < 5) {
        audit.examples.push(`${new Date(through).toISOString()} after ${new Date(highest).toISOString()} in ${phase.name}, seen at ${new Date(at).toISOString()}`)
      }
    }
    highest = Math.max(highest, through)
    known.push({ source, through, rows, phase, at })
  }
  /** Watermarks before which everything was seen. */
  const whole = new Set<number>()
  for (let from = 0; from < known.length; from += PORTION) {
    const some = known.slice(from, from + PORTION)
    const columns = some.map(({ through }, index) =>
      `toUInt32(countIf(received_at < fromUnixTimestamp64Milli(${through}))) AS n${index}`)
    const [counts] = await select<Record<string, number>>(`SELECT ${columns.join()} FROM events`)
    some.forEach(({ source, through, rows, phase }, index) => {
      const later = (counts?.[`n${index}`] ?? 0) - rows
      if (later <= 0) {
        whole.add(through)
        return
      }
      if (source === 'view' && whole.has(through)) {
        audit.staleReads++
        return
      }
      if (source !== 'view') audit.claims.get(source)!.passed++
      audit.passed.set(phase, (audit.passed.get(phase) ?? 0) + 1)
      if (audit.examples.length < 5) {
        audit.examples.push(`${new Date(through).toISOString()} in ${phase.name}, said by ${source}: ${later} rows became visible later`)
      }
    })
  }
  return audit
}

/**
 * Writes a watermark that is ten seconds ahead, as a pipeline that proves nothing might: something passes it for sure
 * while those who repeat it are asked, however busy the machine is.
 */
export function tamperWithWatermark ({ command }: Pick<FaultSystem, 'command'>): { stop: () => Promise<void> } {
  const stopped = new AbortController()
  async function run (): Promise<void> {
    while (!stopped.signal.aborted) {
      await command("INSERT INTO watermark_reached SELECT 0, now64(3) + toIntervalSecond(10), (now64(3) + toIntervalSecond(10), '')").catch(() => {})
      await delay(SAMPLE_MS, undefined, { signal: stopped.signal }).catch(() => {})
    }
  }
  const ended = run()
  return { async stop () { stopped.abort(); await ended } }
}
