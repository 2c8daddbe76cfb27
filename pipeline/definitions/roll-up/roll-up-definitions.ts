import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { compareClocks, forgetFuture } from '../clocks.ts'
import { ROLL_UP_SOURCES, rollUpSource } from './roll-up-source.ts'

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
