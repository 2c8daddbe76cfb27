import { type ClickHouse, queryRows, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { startRounds } from '../periodic-rounds.ts'
import { beginSweep, catchUp, fallBehind } from './catch-up.ts'
import { compareClocks, forgetFuture } from './clocks.ts'
import {
  type DefinitionLimits, ROLL_UP_SOURCES, type RollUpSpan, type RollUpStores, type RowKey, rollUpPage, ROWS_PER_PAGE
} from './roll-up-source.ts'

export interface RollUpDeps {
  clickhouse: ClickHouse
  sql: Sql
  /** Interval of the rounds, in milliseconds. */
  intervalMs: number
  limits: DefinitionLimits
  /** When this process last inserted events, epoch milliseconds. Default: at the moment. */
  insertedAt?: () => number
  metrics: Metrics
  logger: Logger
}

/** The running roll-up of one process. */
export interface RollUp {
  /** Why the last round failed, or null. */
  lastError: () => string | null
  /** Resolves when the running round has ended, or after a second: a round is a transaction, safe to repeat. */
  stop: () => Promise<void>
}

/** What one round did. `skipped`: another process runs one, or has just ended one, or nothing has a new name. */
export type RollUpOutcome = { kind: 'skipped' } |
  { kind: 'done', definitions: number, beyond: readonly number[], last: LastRound }

/** Key of the advisory lock that admits one process at a time. Arbitrary; must never change. */
const ROLL_UP_LOCK = 4_725_372

/**
 * How far back each round reads again, in milliseconds: rows have the time at which their insert began, but are visible
 * only when it ends. The daily sweep finds those of even slower inserts.
 */
const OVERLAP_MS = 120_000

/**
 * Names of the rows of `roll_up_state` with the day of the last sweep, the time up to which was read, and the watermark
 * that all of it covers.
 */
const SWEEP = 'daily sweep'
const RECENT = 'recent changes'
const COMPLETE = 'complete through'

const DAY_MS = 86_400_000

/** Projects with more changed definitions than this are read in slices, after all others. */
const MAX_CHANGES = 2 * ROWS_PER_PAGE

/**
 * While the names of recent events stay the same, one round in this many reads their counts and times, which costs
 * ClickHouse five times as much CPU as the question for new names.
 */
const ROUNDS_WITHOUT_NEW_NAMES = 5

/** Interval of asking the stores while this process has inserted nothing for `OVERLAP_MS`, in milliseconds. */
const QUIET_MS = 20_000

/** How many definitions of each project have changed counts since the given moment, and since the next one, about. */
const COUNT_CHANGES = `
  SELECT project_id, toUInt32(uniqCombined(event, kind, property)) AS changes,
    toUInt32(uniqCombinedIf((event, kind, property), last_inserted >= fromUnixTimestamp64Milli({next:Int64}))) AS changes_since_next
  FROM (
    SELECT project_id, event, '' AS kind, '' AS property, last_inserted FROM event_volumes_by_day
    WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
    UNION ALL
    SELECT project_id, event, toString(kind), property, last_inserted FROM event_property_counts
    WHERE last_inserted >= fromUnixTimestamp64Milli({since:Int64})
  )
  GROUP BY project_id ORDER BY project_id`

interface Changes { project_id: number, changes: number, changes_since_next: number }

/** What a whole round found, by which the next one sees whether there are new names. */
export interface LastRound {
  /** From where on the next round reads, epoch milliseconds; -1: projects were left to catch up. */
  since: number
  /** Names from there on, by project. */
  names: string
}

/**
 * Rolls definitions up until stopped: copies what ClickHouse has counted by name to the definitions in Postgres. Every
 * pipeline process runs this; a lock in Postgres admits one at a time. While a store is unavailable the rounds fail
 * with growing pauses; the next successful one catches up.
 */
export function startRollUp (deps: RollUpDeps): RollUp {
  const { insertedAt = Date.now } = deps
  let lastError: string | null = null
  const rounds = deps.metrics.counter('roll_up_rounds_total', 'Rounds of the roll-up of definitions, by outcome.', { outcome: ['done', 'skipped', 'failed'] })
  const written = deps.metrics.counter('roll_up_definitions_total', 'Definitions read from ClickHouse by the roll-up.')

  let rolledUpAt = Date.now()
  deps.metrics.gaugeFrom('definitions_age_seconds', 'Time since the last successful roll-up of definitions.',
    () => (Date.now() - rolledUpAt) / 1000)

  let last: LastRound | undefined
  // When everything is read all the same, by performance.now().
  let sweepsAt = 0
  let askedAt = -Infinity
  let warnedOn = ''
  let warned = new Set<number>()

  /** Once a project and day. */
  function warnBeyond (projects: readonly number[]): void {
    const today = new Date().toISOString().slice(0, 10)
    if (today !== warnedOn) warned = new Set()
    warnedOn = today
    for (const projectId of projects) {
      if (!warned.has(projectId)) deps.logger.warn({ projectId }, 'too many new event or property names today; further names get no definitions')
      warned.add(projectId)
    }
  }

  /** Nothing new is expected, and no project is left to catch up. Other processes roll up what they insert. */
  function isQuiet (): boolean {
    return last !== undefined && last.since >= 0 && Date.now() - insertedAt() > OVERLAP_MS
  }

  async function round (): Promise<string> {
    try {
      if (isQuiet() && performance.now() - askedAt < QUIET_MS) return 'skipped'
      if (performance.now() >= sweepsAt) last = undefined
      const outcome = await rollUpDefinitions(deps, { minPauseMs: deps.intervalMs / 2, limits: deps.limits, last })
      if (outcome.kind === 'done') {
        last = outcome.last
        sweepsAt = performance.now() + deps.intervalMs * (ROUNDS_WITHOUT_NEW_NAMES - 0.5)
        written.inc(outcome.definitions)
        warnBeyond(outcome.beyond)
      }
      askedAt = performance.now()
      rolledUpAt = Date.now()
      lastError = null
      return outcome.kind
    } catch (error) {
      lastError = error instanceof Error ? error.message : String(error)
      throw error
    }
  }

  const { stop } = startRounds({
    everyMs: deps.intervalMs, round, rounds, logger: deps.logger, failure: 'could not roll up definitions; retrying'
  })
  return { stop, lastError: () => lastError }
}

/**
 * Runs one round: reads the counts that changed in ClickHouse, page by page, and writes them to the definitions in
 * Postgres. Values are absolute, and the time up to which was read is written in the same transaction: a crash only
 * repeats work.
 *
 * A project with many changes is read in slices over the next rounds, after all others, so that it delays only its own
 * definitions. So is every project once a day (the sweep), because volumes of 30 days shrink without new events; then
 * definitions that are not seen any more are pruned. What a user did to a definition (deleted it, renamed it, wrote a
 * value) holds until an event of its name arrives after that; reading older events again does not change it
 * (docs/decisions/0013-manual-definition-changes-win-until-the-next-event.md).
 *
 * @param options.minPauseMs  Skip when a round of any process ended less than this long ago.
 * @param options.last  Skip when nothing has a new name since that round; what that one returned.
 * @throws when a store is unavailable. Nothing has changed then.
 */
export async function rollUpDefinitions (
  stores: { clickhouse: ClickHouse, sql: Sql },
  options: { minPauseMs: number, limits: DefinitionLimits, last?: LastRound | undefined }
): Promise<RollUpOutcome> {
  const { clickhouse } = stores
  const { limits } = options
  return await stores.sql.begin(async (sql): Promise<RollUpOutcome> => {
    if (!await tryLock(sql)) return { kind: 'skipped' }
    const state = await readState(sql)
    if (state.recentAgeMs < options.minPauseMs) return { kind: 'skipped' }

    // What was complete before the counts are read is in them.
    const completeThrough = await readCompleteThrough(clickhouse)
    // Before anything is read, by the clock that stamps the rows.
    const clocks = await compareClocks(clickhouse, sql)
    const { nowMs, today } = clocks
    // What was pruned is not read again.
    const oldest = limits.retentionDays === 0 ? 0 : nowMs - limits.retentionDays * DAY_MS
    // A clock that was set back stamps new rows with times before the last round.
    const asOf = Math.min(state.readUpTo, nowMs)
    const since = Math.max(oldest, asOf - OVERLAP_MS, 0)
    const next = nowMs - OVERLAP_MS
    const changes = await queryRows<Changes>(clickhouse, COUNT_CHANGES, { since, next })
    if (options.last?.since === since && options.last.names === describeNames(changes, 'changes')) return { kind: 'skipped' }
    await forgetFuture(sql)
    // Projects with too many changes to be read with the others.
    const busy = changes.filter((row) => row.changes > MAX_CHANGES).map((row) => row.project_id)
    const recent = changes.length === 0
      ? { rows: 0, beyond: [] }
      : await rollUpOthers({ clickhouse, sql }, { ...clocks, since, project: null, except: busy }, limits)
    if (busy.length > 0) await fallBehind(sql, busy, { since, asOf })
    if (state.sweptDay !== today) {
      await beginSweep(sql, oldest)
      await writeState(sql, SWEEP, `${today}T00:00:00Z`)
    }
    const late = await catchUp({ clickhouse, sql }, clocks, limits)
    await writeState(sql, RECENT, new Date(nowMs).toISOString())
    if (completeThrough !== null) await writeState(sql, COMPLETE, completeThrough.toISOString())
    // Projects that are behind go on with the next round.
    const isCaughtUp = busy.length === 0 && late.rows === 0
    const last = { since: isCaughtUp ? next : -1, names: describeNames(changes, 'changes_since_next') }
    return { kind: 'done', definitions: recent.rows + late.rows, beyond: [...recent.beyond, ...late.beyond], last }
  })
}

/** How many names each project has since a moment. They only become more, so an equal number means the same names. */
function describeNames (changes: readonly Changes[], since: 'changes' | 'changes_since_next'): string {
  return changes.filter((row) => row[since] > 0).map((row) => `${row.project_id}:${row[since]}`).join(' ')
}

async function rollUpOthers (
  stores: RollUpStores, span: RollUpSpan, limits: DefinitionLimits
): Promise<{ rows: number, beyond: number[] }> {
  const read: { rows: number, beyond: number[] } = { rows: 0, beyond: [] }
  for (const source of ROLL_UP_SOURCES) {
    let after: RowKey | null = null
    do {
      const page = await rollUpPage({ source, after, span, limits }, stores)
      read.rows += page.rows
      read.beyond.push(...page.beyond)
      after = page.next
    } while (after !== null)
  }
  return read
}

async function tryLock (sql: SqlTemplates): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`SELECT pg_try_advisory_xact_lock(${ROLL_UP_LOCK}) AS locked`
  return row?.locked === true
}

interface RollUpState {
  /** Changes up to this time are read; by ClickHouse's clock, epoch milliseconds, 0 at first. */
  readUpTo: number
  /** Age of `readUpTo`, by Postgres' clock, in milliseconds. */
  recentAgeMs: number
  /** Day of the last sweep, such as 2026-01-31. */
  sweptDay: string | null
}

async function readState (sql: SqlTemplates): Promise<RollUpState> {
  const rows = await sql<{ source: string, read_up_to: Date, age_ms: number }[]>`
    SELECT source, read_up_to, abs(extract(epoch FROM clock_timestamp() - read_up_to) * 1000)::float8 AS age_ms
    FROM roll_up_state WHERE source IN (${RECENT}, ${SWEEP})`
  const recent = rows.find(({ source }) => source === RECENT)
  const sweep = rows.find(({ source }) => source === SWEEP)
  return {
    readUpTo: recent?.read_up_to.getTime() ?? 0,
    recentAgeMs: recent?.age_ms ?? Infinity,
    sweptDay: sweep?.read_up_to.toISOString().slice(0, 10) ?? null
  }
}

async function writeState (sql: SqlTemplates, source: string, readUpTo: string): Promise<void> {
  await sql`INSERT INTO roll_up_state (source, read_up_to) VALUES (${source}, ${readUpTo})
    ON CONFLICT (source) DO UPDATE SET read_up_to = excluded.read_up_to`
}
