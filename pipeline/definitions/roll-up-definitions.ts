import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { readCompleteThrough } from '../../platform/watermark.ts'
import { startRounds } from '../periodic-work.ts'
import { readSql } from '../read-sql.ts'
import { compareClocks, forgetFuture } from './clocks.ts'

export interface RollUpDeps {
  clickhouse: ClickHouse
  sql: Sql
  /** Interval of the rounds, in milliseconds. */
  intervalMs: number
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

/** What one round did. `skipped`: another process runs one, or has just ended one. */
export type RollUpOutcome = { kind: 'skipped' } | { kind: 'done', definitions: number, swept: boolean }

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

/** Maximum rows of one statement in Postgres. */
const ROWS_PER_UPSERT = 2000

/** A table of counts in ClickHouse and its table of definitions in Postgres. */
export interface RollUpSource {
  name: string
  /** Query of what changed since a time, in absolute values. */
  read: string
  /** Statement that writes it. Parameters: the rows as JSON, and the time of ClickHouse's clock in epoch ms. */
  upsert: string
}

/** All that is rolled up, in this order. */
const ROLL_UP_SOURCES: readonly RollUpSource[] = [
  {
    name: 'events',
    read: readSql(import.meta.dirname, 'read-event-volumes.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-definitions.sql')
  },
  {
    name: 'properties',
    read: readSql(import.meta.dirname, 'read-changed-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-property-definitions.sql')
  },
  {
    name: 'event properties',
    read: readSql(import.meta.dirname, 'read-changed-event-properties.sql'),
    upsert: readSql(import.meta.dirname, 'upsert-event-properties.sql')
  }
]

/**
 * Rolls definitions up until stopped: copies what ClickHouse has counted by name to the definitions in Postgres. Every
 * pipeline process runs this; a lock in Postgres admits one at a time. While a store is unavailable the rounds fail
 * with growing pauses; the next successful one catches up.
 */
export function startRollUp (deps: RollUpDeps): RollUp {
  let lastError: string | null = null
  const rounds = deps.metrics.counter('roll_up_rounds_total', 'Rounds of the roll-up of definitions, by outcome.', { outcome: ['done', 'skipped', 'failed'] })
  const written = deps.metrics.counter('roll_up_definitions_total', 'Definitions that the roll-up read from ClickHouse.')

  let rolledUpAt = Date.now()
  deps.metrics.gaugeFrom('definitions_age_seconds', 'Time since the last successful round of the roll-up: how stale definitions may be.',
    () => (Date.now() - rolledUpAt) / 1000)

  async function round (): Promise<string> {
    try {
      const outcome = await rollUpDefinitions(deps, { minPauseMs: deps.intervalMs / 2 })
      if (outcome.kind === 'done') written.inc(outcome.definitions)
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
 * Runs one round: reads the counts that changed in ClickHouse, and writes them to the definitions in Postgres. Values
 * are absolute, and the time up to which was read is written in the same transaction: a crash only repeats work.
 *
 * Once a day it reads everything (the sweep), because volumes of 30 days shrink without new events. What a user did to
 * a definition (deleted it, renamed it, wrote a value) holds until an event of its name arrives after that; reading
 * older events again does not change it (docs/decisions/0013-what-a-person-did-holds-until-an-event-arrives.md).
 *
 * @param options.minPauseMs  Skip when a round of any process ended less than this long ago.
 * @throws when a store is unavailable. Nothing has changed then.
 */
export async function rollUpDefinitions (
  stores: { clickhouse: ClickHouse, sql: Sql }, options: { minPauseMs: number }
): Promise<RollUpOutcome> {
  return await stores.sql.begin(async (transaction): Promise<RollUpOutcome> => {
    const sql = transaction as unknown as Sql
    if (!await tryLock(sql)) return { kind: 'skipped' }
    const state = await readState(sql)
    if (state.recentAgeMs < options.minPauseMs) return { kind: 'skipped' }

    await forgetFuture(sql)
    // What was complete before the counts are read is in them.
    const completeThrough = await readCompleteThrough(stores.clickhouse)
    // Before anything is read, by the clock that stamps the rows.
    const { nowMs, today, clockLeadMs } = await compareClocks(stores.clickhouse, sql)
    const sweep = state.sweptDay !== today
    // A clock that was set back stamps new rows with times before the last round.
    const since = sweep ? 0 : Math.max(0, Math.min(state.readUpTo, nowMs) - OVERLAP_MS)
    let definitions = 0
    for (const source of ROLL_UP_SOURCES) {
      definitions += await rollUpSource(source, { clickhouse: stores.clickhouse, sql }, { since, nowMs, clockLeadMs })
    }
    await writeState(sql, RECENT, new Date(nowMs).toISOString())
    if (completeThrough !== null) await writeState(sql, COMPLETE, completeThrough.toISOString())
    if (sweep) await writeState(sql, SWEEP, `${today}T00:00:00Z`)
    return { kind: 'done', definitions, swept: sweep }
  }) as RollUpOutcome
}

async function tryLock (sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`SELECT pg_try_advisory_xact_lock(${ROLL_UP_LOCK}) AS locked`
  return row!.locked
}

/** The time from which a round reads; by ClickHouse's clock, epoch milliseconds. */
export interface RollUpSpan {
  /** 0 for everything. */
  since: number
  nowMs: number
  /** How far the clock of ClickHouse is ahead of that of Postgres, in milliseconds. */
  clockLeadMs: number
}

/**
 * Writes the changes of one source to its definitions.
 *
 * @returns how many definitions were read.
 */
async function rollUpSource (
  source: RollUpSource, stores: { clickhouse: ClickHouse, sql: Sql }, span: RollUpSpan
): Promise<number> {
  const result = await stores.clickhouse.query({
    query: source.read,
    query_params: { since: span.since, clock_lead_ms: span.clockLeadMs },
    format: 'JSONEachRow'
  })
  const rows = await result.json<Record<string, string | number>>()
  for (let from = 0; from < rows.length; from += ROWS_PER_UPSERT) {
    await stores.sql.unsafe(source.upsert, [JSON.stringify(rows.slice(from, from + ROWS_PER_UPSERT)), span.nowMs])
  }
  return rows.length
}

interface RollUpState {
  /** Changes up to this time are read; by ClickHouse's clock, epoch milliseconds, 0 at first. */
  readUpTo: number
  /** Age of `readUpTo`, by Postgres' clock, in milliseconds. */
  recentAgeMs: number
  /** Day of the last sweep, such as 2026-01-31. */
  sweptDay: string | null
}

async function readState (sql: Sql): Promise<RollUpState> {
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

async function writeState (sql: Sql, source: string, readUpTo: string): Promise<void> {
  await sql`INSERT INTO roll_up_state (source, read_up_to) VALUES (${source}, ${readUpTo})
    ON CONFLICT (source) DO UPDATE SET read_up_to = excluded.read_up_to`
}
