import { setTimeout as delay } from 'node:timers/promises'
import { type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type Logger } from '../../platform/logger.ts'
import { type Metrics } from '../../platform/metrics.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import { compareClocks, forgetFuture } from './clocks.ts'
import { readSql } from '../read-sql.ts'

const STOP_MS = 1000

export interface RollUpDeps {
  clickhouse: ClickHouse
  sql: Sql
  /** Pause between two rounds, in milliseconds. */
  intervalMs: number
  metrics: Metrics
  logger: Logger
}

/** The running roll-up of one process. */
export interface RollUp {
  /** Why the last round failed, or null. */
  lastError: () => string | null
  /** Resolves when the round under way ended, or after a second: it is a transaction, and repeats harmlessly. */
  stop: () => Promise<void>
}

/**
 * Rolls definitions up until stopped. Every pipeline process runs this; a lock in Postgres lets one at a time do it.
 * While a store is unavailable the rounds fail and the pauses grow; afterwards it catches up by itself.
 */
export function startRollUp (deps: RollUpDeps): RollUp {
  const stopped = new AbortController()
  let lastError: string | null = null
  const rounds = deps.metrics.counter('roll_up_rounds_total', 'Rounds of the definitions roll-up.', { outcome: ['done', 'skipped', 'failed'] })
  const written = deps.metrics.counter('roll_up_definitions_total', 'Definitions read by the roll-up.')

  let rolledUpAt = Date.now()
  deps.metrics.gaugeFrom('definitions_age_seconds', 'Since the last round of the roll-up that did not fail: how stale definitions may be.',
    () => (Date.now() - rolledUpAt) / 1000)

  async function run (): Promise<void> {
    for (let failures = 0; !stopped.signal.aborted;) {
      try {
        const outcome = await rollUpDefinitions(deps, { minPauseMs: deps.intervalMs / 2 })
        rounds.inc({ outcome: outcome.kind })
        if (outcome.kind === 'done') written.inc(outcome.definitions)
        failures = 0
        rolledUpAt = Date.now()
        lastError = null
      } catch (err) {
        failures++
        rounds.inc({ outcome: 'failed' })
        lastError = err instanceof Error ? err.message : String(err)
        if (!stopped.signal.aborted) deps.logger.warn({ err, failures }, 'definitions could not be rolled up')
      }
      await pause(failures === 0 ? deps.intervalMs : Math.max(deps.intervalMs, retryDelayMs(failures)), stopped.signal)
    }
  }

  const ended = run()
  return {
    lastError: () => lastError,
    async stop () {
      stopped.abort()
      await Promise.race([ended, delay(STOP_MS, undefined, { ref: false })])
    }
  }
}

/** Any number, the same in every version: the advisory lock that lets one process roll up at a time. */
const ROLL_UP_LOCK = 4_725_372

/**
 * An insert shows the time of its begin but is visible at its end; so much of the past is read again, in milliseconds.
 * What takes even longer is found by the daily sweep.
 */
const OVERLAP_MS = 120_000

/** Name under which the day of the last sweep is kept in `roll_up_state`. */
const SWEEP = 'daily sweep'
const RECENT = 'recent changes'

/** What one round did. `skipped`: another process is at it, or was a moment ago. */
export type RollUpOutcome = { kind: 'skipped' } | { kind: 'done', definitions: number, swept: boolean }

/**
 * Reads what changed in ClickHouse's counts and writes it to the definitions in Postgres. Values are absolute and the
 * place up to which was read is written in the same transaction, so a crash anywhere repeats work and nothing else.
 *
 * Once a day everything is read: volumes of 30 days shrink also without a new event. What a person did to a definition
 * (deleted it, renamed it, wrote a value) holds until an event of its name arrives after that; reading what is older
 * again does not touch it (docs/decisions/0013-what-a-person-did-holds-until-an-event-arrives.md).
 *
 * @param options.minPauseMs  Skip when a round of any process ended less than this ago.
 * @throws when a store does not answer. Nothing has changed then.
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
    // Before anything is read, and by the clock that stamped the rows.
    const { nowMs, today, clockLeadMs } = await compareClocks(stores.clickhouse, sql)
    const sweep = state.sweptDay !== today
    // A clock that went back stamps what is new with times from before the last round.
    const since = sweep ? 0 : Math.max(0, Math.min(state.readUpTo, nowMs) - OVERLAP_MS)
    let definitions = 0
    for (const source of ROLL_UP_SOURCES) {
      definitions += await rollUpSource(source, { clickhouse: stores.clickhouse, sql }, { since, nowMs, clockLeadMs })
    }
    await writeState(sql, RECENT, new Date(nowMs).toISOString())
    if (sweep) await writeState(sql, SWEEP, `${today}T00:00:00Z`)
    return { kind: 'done', definitions, swept: sweep }
  }) as RollUpOutcome
}

async function tryLock (sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`SELECT pg_try_advisory_xact_lock(${ROLL_UP_LOCK}) AS locked`
  return row!.locked
}

interface RollUpState {
  /** Up to where recent changes were read, in ClickHouse's time, epoch ms; 0 at first. */
  readUpTo: number
  /** How long ago that was, by Postgres' clock. */
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

/** One table of counts in ClickHouse, and the table of definitions that follows it. */
export interface RollUpSource {
  name: string
  /** Reads what changed since a moment, in absolute values. */
  read: string
  /** Writes it; takes the rows as one JSON text, and now by ClickHouse's clock in epoch milliseconds. */
  upsert: string
}

/** Everything that is rolled up, in this order. */
const ROLL_UP_SOURCES: readonly RollUpSource[] = [
  {
    name: 'events',
    read: readSql(import.meta.dirname, 'read-changed-events.sql'),
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

/** Rows per statement to Postgres. */
const ROWS_PER_UPSERT = 2000

/** From where a round reads. Times in the clock of ClickHouse, epoch milliseconds. */
export interface RollUpSpan {
  /** 0 for everything. */
  since: number
  nowMs: number
  /** How far the clock of ClickHouse is ahead of that of Postgres, in milliseconds. */
  clockLeadMs: number
}

/**
 * Brings the definitions of one source up to date with what changed since the given moment.
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
