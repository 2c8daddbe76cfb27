import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { fieldsOf } from '../../engines/fields.ts'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import { type ClickHouse, PAST_USER_VIEWS } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { pause } from '../../platform/intervals.ts'

/** Rows of the outbox per transaction; each has at most some 4 MB of text. */
const MAX_ROWS_PER_DRAIN = 4

/** Maximum time of a drain, in ms: a flood refills the outbox as fast as it drains, and callers have more to do. */
const MAX_DRAIN_MS = 5000

/** Between two looks whether copies have left, in ms. */
const LOOK_MS = 200

/**
 * Moves the outbox to ClickHouse, oldest row first, until it is empty, the time is up or the signal fires. Rests after
 * each insert as long as that took: a flood of large persons leaves half of the time to the inserts of events.
 *
 * A copy is deleted from the outbox after it is stored. After a crash in between it is stored again, which is harmless:
 * the tables keep the highest version of a row. For the same reason several processes may drain at once.
 *
 * @returns how many rows were stored, and how many rows of the outbox ClickHouse can never store; those stay, with the
 *   reason in the column `refused`.
 * @throws when Postgres or ClickHouse is unavailable; unstored rows stay in the outbox.
 */
export async function drainPersonsOutbox (
  { sql, clickhouse, signal }: { sql: Sql, clickhouse: ClickHouse, signal: AbortSignal }
): Promise<{ stored: number, refused: number }> {
  const total = { stored: 0, refused: 0 }
  for (const until = performance.now() + MAX_DRAIN_MS; performance.now() < until && !signal.aborted;) {
    const startedAt = performance.now()
    const some = await drainSome(sql, clickhouse)
    total.stored += some.stored
    total.refused += some.refused
    if (some.taken < MAX_ROWS_PER_DRAIN) break
    await pause(performance.now() - startedAt, signal)
  }
  return total
}

/**
 * Drains until all copies up to an id have arrived, also those that another process is inserting.
 *
 * @returns false when it became late before.
 */
export async function copiesHaveLeft (
  { sql, clickhouse }: { sql: Sql, clickhouse: ClickHouse }, upTo: number, isLate: () => boolean
): Promise<boolean> {
  for (;;) {
    await drainPersonsOutbox({ sql, clickhouse, signal: AbortSignal.timeout(LOOK_MS) })
    const waiting = await sql`SELECT 1 FROM persons_outbox WHERE id <= ${upTo} AND refused IS NULL LIMIT 1`
    if (waiting.length === 0) return true
    if (isLate()) return false
    await delay(LOOK_MS)
  }
}

/**
 * Removes rows of deleted persons from copies that ClickHouse refused, which would stay, or come back when somebody has
 * them inserted again. The reason goes as well, as it may quote such a row.
 *
 * @param isRemoved  Whether a row, by column, is to be removed.
 */
export async function removeRefusedCopies (
  sql: Sql, { upTo, isRemoved }: { upTo: number, isRemoved: (copy: Readonly<Record<string, unknown>>) => boolean }
): Promise<void> {
  for (const { id } of await sql<{ id: number }[]>`SELECT id FROM persons_outbox WHERE refused IS NOT NULL AND id <= ${upTo}`) {
    await sql.begin(async (transaction) => {
      const [row] = await transaction<{ rows: Buffer }[]>`SELECT rows FROM persons_outbox WHERE id = ${id} AND refused IS NOT NULL FOR UPDATE`
      // Somebody has just released it, or another deletion has removed it.
      if (row === undefined) return
      const lines = zstdDecompressSync(row.rows).toString().trimEnd().split('\n')
      const left = lines.filter((line) => !isRemoved(fieldsOf(JSON.parse(line))))
      if (left.length === 0) await transaction`DELETE FROM persons_outbox WHERE id = ${id}`
      else if (left.length < lines.length) {
        await transaction`
          UPDATE persons_outbox SET rows = ${zstdCompressSync(`${left.join('\n')}\n`)}, row_count = ${left.length},
            refused = 'refused together with rows of persons that were deleted since' WHERE id = ${id}`
      }
    })
  }
}

interface OutboxRow {
  id: number
  target: string
  rows: Buffer
}

async function drainSome (
  sql: Sql, clickhouse: ClickHouse
): Promise<{ taken: number, stored: number, refused: number }> {
  return await sql.begin(async (transaction) => {
    const waiting = await transaction<(OutboxRow & { rowCount: number })[]>`
      SELECT id, target, rows, row_count AS "rowCount" FROM persons_outbox
      WHERE refused IS NULL ORDER BY id LIMIT ${MAX_ROWS_PER_DRAIN} FOR UPDATE SKIP LOCKED`
    const refused = await storeCopies(clickhouse, waiting)
    for (const [id, reason] of refused) {
      await transaction`UPDATE persons_outbox SET refused = ${reason} WHERE id = ${id}`
    }
    const done = waiting.filter(({ id }) => !refused.has(id))
    if (done.length > 0) await transaction`DELETE FROM persons_outbox WHERE id = ANY (${done.map(({ id }) => id)})`
    const stored = done.reduce((sum, { rowCount }) => sum + rowCount, 0)
    return { taken: waiting.length, stored, refused: refused.size }
  })
}

/** Inserts by table. @returns the refused rows of the outbox by id, with the reason. */
async function storeCopies (clickhouse: ClickHouse, waiting: readonly OutboxRow[]): Promise<Map<number, string>> {
  const refused = new Map<number, string>()
  for (const [target, rows] of Map.groupBy(waiting, (row) => row.target)) {
    if (await tryInsert(clickhouse, target, rows) === null) continue
    // At least one is bad: insert each alone, so that the others are stored.
    for (const row of rows) {
      const reason = await tryInsert(clickhouse, target, [row])
      if (reason !== null) refused.set(row.id, reason)
    }
  }
  return refused
}

/** @returns why ClickHouse refused the rows, or null when it stored them. */
async function tryInsert (clickhouse: ClickHouse, target: string, rows: readonly OutboxRow[]): Promise<string | null> {
  try {
    const { stream } = await clickhouse.exec({
      query: `INSERT INTO ${target} FORMAT JSONEachRow`,
      values: Readable.from(rows.map((row) => zstdDecompressSync(row.rows)), { objectMode: false }),
      clickhouse_settings: { async_insert: 0, input_format_json_read_objects_as_strings: 1, ...PAST_USER_VIEWS }
    })
    // The answer is empty, but the socket is reused only after it is read.
    await text(stream)
    return null
  } catch (error) {
    // Anything else (network, memory, too many parts, a missing table or column) is waited out.
    if (classifyClickHouseError(error).action === 'refuse') return String(error instanceof Error ? error.message : error)
    throw error
  }
}
