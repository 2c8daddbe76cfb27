/** The audit of any span: the equation of each project, and the minutes in which it does not hold. */
import { jetstreamManager } from '@nats-io/jetstream'
import { readLedgerKey } from '../../schema/wire/ledger.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { onEachShard, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../engines/errors.ts'
import { WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { checkBooks, countStored, type Drift, type StoredCounts, storedByBooks } from './check-books.ts'
import { type BookTotals, type LedgerDeps, type LedgerSpan, readBooks } from './read-books.ts'
import { readStreamInfo } from '../../platform/nats/stream-info.ts'

/** accepted + replayed = stored + duplicates + deadLettered + deleted + changing + missing - extra. */
export interface ProjectBooks {
  project: number
  /** Published by ingest, and dealt with by the pipeline. */
  accepted: number
  /** Of dead letters that were replayed. */
  replayed: number
  /** Rows in `events`, counted there. */
  stored: number
  duplicates: number
  deadLettered: number
  deleted: number
  /** Stored or removed while it was counted. */
  changing: number
  missing: number
  extra: number
  /** Answered with 200 and never published, by ingestion warnings. Beside the equation. */
  dropped: number
}

export interface LedgerAudit {
  /** ISO 8601; whole minutes, `to` exclusive. */
  from: string
  to: string
  /** Earlier minutes are not compared; null while the pipeline has not written anything. */
  booksSince: string | null
  projects: ProjectBooks[]
  /** Minutes whose books do not balance, ISO 8601. */
  drift: (Omit<Drift, 'projectId' | 'minute'> & { project: number, minute: string })[]
  /** Rows of inserts that were still under way: they may be too many, and are no drift yet. */
  unsettled: number
  /** Messages that ingest published and the pipeline has not dealt with: on neither side. */
  waitingMessages: number
}

/** Minutes that are compared at a time: bounds the memory. */
const CHUNK_MINUTES = 360

/** Longest wait for inserts under way, in milliseconds. */
const SETTLE_MS = 60_000

/**
 * Recounts a span from the table and compares it with the books.
 *
 * @throws when NATS or ClickHouse does not answer.
 */
export async function auditLedger (deps: LedgerDeps, span: LedgerSpan): Promise<LedgerAudit> {
  const { openedAt } = await readBooks(deps, { ...span, from: span.to })
  const from = Math.min(span.to, Math.max(span.from, openedAt))
  const projects = new Map<number, ProjectBooks>()
  const drift: LedgerAudit['drift'] = []
  let unsettled = 0
  for (let at = from; at < span.to; at += CHUNK_MINUTES) {
    const chunk = { ...span, from: at, to: Math.min(span.to, at + CHUNK_MINUTES) }
    const check = await checkBooks(deps, chunk, {
      countStored: async (each) => await countStored(deps, each), settleMs: SETTLE_MS
    })
    addBooks(projects, check.books.totals, check.stored)
    addDrift(projects, check.drift)
    unsettled += check.unsettled
    for (const { projectId: project, minute, ...rows } of check.drift) {
      drift.push({ project, minute: toIso(minute), ...rows })
    }
  }
  await addDropped(deps, { ...span, from }, projects)
  const { state } = await readStreamInfo(await jetstreamManager(deps.connection), EVENTS_STREAM)
  return {
    from: toIso(span.from),
    to: toIso(span.to),
    booksSince: Number.isFinite(openedAt) ? toIso(openedAt) : null,
    projects: [...projects.values()].sort((a, b) => a.project - b.project),
    drift,
    unsettled,
    waitingMessages: state.messages
  }
}

/** Says that the books of an audit do not balance. */
export function driftError ({ drift }: LedgerAudit): MillraceError {
  const missing = drift.reduce((sum, each) => sum + each.missing, 0)
  const extra = drift.reduce((sum, each) => sum + each.extra, 0)
  return new MillraceError('MILLRACE_LEDGER_DRIFT',
    `ledger drift detected: ${missing} events missing, ${extra} extra`,
    { details: { missing, extra } })
}

function addBooks (
  projects: Map<number, ProjectBooks>, books: ReadonlyMap<string, BookTotals>, stored: StoredCounts
): void {
  for (const key of new Set([...books.keys(), ...stored.keys()])) {
    const totals = books.get(key)
    const rows = stored.get(key) ?? 0
    const project = projectOf(projects, readLedgerKey(key).projectId)
    project.accepted += totals?.accepted ?? 0
    project.replayed += totals?.replayed ?? 0
    project.duplicates += totals?.duplicates ?? 0
    project.deadLettered += totals?.deadLettered ?? 0
    project.deleted += totals?.deletionsBegun ?? 0
    project.stored += rows
    project.changing += storedByBooks(totals) - (totals?.deletionsBegun ?? 0) - rows
  }
}

function addDrift (projects: Map<number, ProjectBooks>, drift: readonly Drift[]): void {
  for (const { projectId, missing, extra } of drift) {
    const project = projectOf(projects, projectId)
    project.missing += missing
    project.extra += extra
    project.changing += extra - missing
  }
}

async function addDropped (
  { clickhouse, cluster }: LedgerDeps, { from, to, projectId = 0 }: LedgerSpan, projects: Map<number, ProjectBooks>
): Promise<void> {
  const rows = await queryRows<{ project: number, dropped: string }>(clickhouse, `
    SELECT project_id AS project, sum(total) AS dropped FROM (
      SELECT project_id, max(count) AS total FROM ${onEachShard(cluster, WARNINGS_TABLE)}
      WHERE effect = 'dropped' AND project_id > 0
        AND minute >= toDateTime({from: UInt32}) AND minute < toDateTime({to: UInt32})
        AND ({project: UInt32} = 0 OR project_id = {project: UInt32})
      GROUP BY project_id, minute, reason, source
    ) GROUP BY project`, { from: from * 60, to: to * 60, project: projectId })
  for (const { project, dropped } of rows) projectOf(projects, project).dropped += Number(dropped)
}

function projectOf (projects: Map<number, ProjectBooks>, project: number): ProjectBooks {
  const known = projects.get(project)
  if (known !== undefined) return known
  const fresh = {
    project, accepted: 0, replayed: 0, stored: 0, duplicates: 0, deadLettered: 0, deleted: 0, changing: 0,
    missing: 0, extra: 0, dropped: 0
  }
  projects.set(project, fresh)
  return fresh
}

function toIso (minute: number): string {
  return new Date(minute * 60_000).toISOString().replace('.000Z', 'Z')
}
