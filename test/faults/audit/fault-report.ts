import type { BooksAudit } from './audit-books.ts'
import type { ReceiptAudit } from './audit-receipts.ts'
import type { EventAudit } from './audit-events.ts'
import type { WatermarkAudit } from './watch-watermark.ts'
import type { LoadPhase } from '../load-ledger.ts'
import type { SchemaAudit } from '../schema-changes.ts'

/** One fault in the table. */
export interface FaultRow {
  name: string
  what: string
  /** Why it was not injected here; null when it can be. */
  notRun: string | null
  injected: number
  /** Events acknowledged from the injection to the recovery. */
  acknowledged: number
  /** Requests without a 200. */
  retries: number
  lost: number
  duplicated: number
  deadLettered: number
  /** Rows by which `events` differed from the books after the fault. */
  drift: number
  /** Samples of the watermark that something passed: stored later, received before. */
  passed: number
  wrongReceipts: number
  /** Changes of a schema of the load from the injection to the recovery. */
  schemaChanges: number
  longestStallMs: number
  /** Longest time from healing until everything worked as before. */
  recoveryMs: number
  phases: LoadPhase[]
}

export interface FaultReport {
  rows: FaultRow[]
  eventsPerSecond: number
  acknowledged: number
  sent: number
  /** Events that clients gave up; they may be stored or not. */
  givenUp: number
  /** After draining and, when something was replayed, once more after that. */
  audits: EventAudit[]
  /** In the end. */
  books: BooksAudit
  /** In the end: whether every ingest process has the active version. */
  schemas: SchemaAudit
  watermark: WatermarkAudit
  /** The watermark is on one shard of a cluster, of which a replica with an earlier row may answer for a moment. */
  mayGoBack?: boolean
  /** Receipts of events of the load, of drops and of events that nobody sent. */
  receipts: ReceiptAudit
  /** Dead letters that were replayed. */
  replayed: number
  /** What differs or did not come true. */
  problems: string[]
  /** Processes that exited unexpectedly; not a difference by itself. */
  surprises: string[]
}

const COLUMNS = [
  'fault', 'times', 'acknowledged', 'retries', 'lost', 'duplicated', 'dead-lettered', 'drift of books',
  'watermark passed', 'wrong receipts', 'schema changes', 'longest stall', 'time to recover'
]

/**
 * True when nothing was lost, stored twice or passed by the watermark, all counts agree, receipts are right, and every
 * ingest process has the schema that is active.
 */
export function isClean ({ audits, problems, receipts, watermark, mayGoBack = false, schemas }: FaultReport): boolean {
  const { moves, passed, wentBack, staleReads } = watermark
  const isTrue = passed.size === 0 && (wentBack + staleReads === 0 || mayGoBack)
  const isKnown = receipts.wrong.size === 0 && moves > 0 && isTrue &&
    [...watermark.claims.values()].every(({ compared }) => compared > 0)
  // A run in which no schema changed has not shown that every process follows.
  return problems.length === 0 && isKnown && schemas.changes > 0 && audits.every((audit) =>
    audit.lost.size === 0 && audit.duplicated.size === 0 && audit.strangers === 0)
}

/** The faults that were not injected, and why. */
export function listNotRun ({ rows }: Pick<FaultReport, 'rows'>): { name: string, why: string }[] {
  return rows.filter(({ injected }) => injected === 0).map(({ name, notRun }) => ({ name, why: notRun ?? 'the time was over' }))
}

/** The exit status: 0 all faults ran and everything held, 1 something differs, 3 all that ran held but not all ran. */
export function chooseExitStatus (report: FaultReport): 0 | 1 | 3 {
  if (!isClean(report)) return 1
  return listNotRun(report).length === 0 ? 0 : 3
}

/** The table, and below it everything that is not as it should be. */
export function renderReport (report: FaultReport): string {
  const { rows, audits } = report
  const table = [COLUMNS, ...rows.map(renderRow)]
  const widths = COLUMNS.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  const lines = table.map((row) => row.map((cell, column) =>
    column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)).join('  ').trimEnd())
  lines.push('')
  lines.push(`${report.acknowledged} events acknowledged of ${report.sent} sent (${Math.round(report.eventsPerSecond)}/s), ` +
    `${report.givenUp} given up by clients, ${audits.at(-1)?.unacknowledgedStored} stored without an acknowledgement`)
  for (const [index, audit] of audits.entries()) {
    lines.push(`${index === 0 ? 'drained' : `${report.replayed} dead letters replayed`}: ` +
      `lost ${total(audit.lost)}, duplicated ${total(audit.duplicated)}, dead-lettered ${total(audit.deadLettered)}, ` +
      `stored but never sent ${audit.strangers}`)
    lines.push(...audit.examples.map((example) => `  ${example}`))
  }
  lines.push(`books: drift ${report.books.drift} of ${report.books.compared} events`)
  const { samples, moves, wentBack, staleReads, passed, claims, examples } = report.watermark
  lines.push(`watermark: ${samples} samples, ${moves} moves, passed ${total(passed)}, went back ${wentBack}, read from a stale replica ${staleReads}`)
  const repeated = [...claims].map(([source, claim]) => `${source} ${claim.compared} times, passed ${claim.passed}`)
  lines.push(`repeated by: ${repeated.join('; ')}`)
  lines.push(...examples.map((example) => `  ${example}`))
  const { receipts } = report
  lines.push(`${receipts.asked} receipts asked for, ${total(receipts.wrong)} wrong`)
  lines.push(...receipts.examples.map((example) => `  ${example}`))
  const { changes, refused, active, versions } = report.schemas
  lines.push(`schemas: ${changes} changes (${refused} not confirmed), version ${active} is active; ` +
    versions.map(({ process, version }) => `${process} has ${version ?? 'none'}`).join(', '))
  const notRun = listNotRun(report)
  lines.push(...notRun.map(({ name, why }) => `NOT RUN: ${name}: ${why}`))
  lines.push(...report.surprises.map((surprise) => `note: ${surprise}`))
  lines.push(...report.problems.map((problem) => `DIFFERENCE: ${problem}`))
  lines.push(summarize(report, notRun.length))
  return `${lines.join('\n')}\n`
}

/** The last line: what was not run is not a pass. */
function summarize (report: FaultReport, notRun: number): string {
  const incomplete = notRun === 0 ? '' : `; NOT COMPLETE: ${notRun} of ${report.rows.length} faults were not run`
  return `${isClean(report) ? 'clean: nothing lost, nothing twice, all counts equal, books balance' : 'NOT CLEAN'}${incomplete}`
}

function renderRow (row: FaultRow): string[] {
  if (row.injected === 0) return [row.name, 'not run']
  return [
    row.name,
    ...[row.injected, row.acknowledged, row.retries, row.lost].map(String),
    ...[row.duplicated, row.deadLettered, row.drift, row.passed, row.wrongReceipts, row.schemaChanges].map(String),
    `${(row.longestStallMs / 1000).toFixed(1)} s`, `${(row.recoveryMs / 1000).toFixed(1)} s`
  ]
}

function total (counts: ReadonlyMap<unknown, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}
