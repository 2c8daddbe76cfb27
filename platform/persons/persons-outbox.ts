import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { ClickHouseError } from '@clickhouse/client'
import { type Sql, type TransactionSql } from '../postgres/connect-postgres.ts'
import { type ClickHouse } from '../clickhouse/connect-clickhouse.ts'

/** Tables of ClickHouse with copies of persons and groups. */
export const COPY_TABLES = ['persons', 'person_distinct_ids', 'person_overrides', 'groups'] as const

export type CopyTable = typeof COPY_TABLES[number]

/** Row of a copy, by the names of its columns; `properties` as an object. */
export type CopyRow = Record<string, unknown> & { project_id: number, version: number, is_deleted: 0 | 1 }

/** Copies to be made, by table. */
export type PersonsCopies = Record<CopyTable, CopyRow[]>

/** Text of one row of the outbox before compression; bounds the memory of anyone who drains it. */
const MAX_CHUNK_LENGTH = 4_194_304

export function noCopies (): PersonsCopies {
  return { persons: [], person_distinct_ids: [], person_overrides: [], groups: [] }
}

/** Epoch milliseconds as ClickHouse reads a DateTime64(3, 'UTC'). */
export function toCopyTime (epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 23).replace('T', ' ')
}

/**
 * Puts copies into the outbox, in the transaction of the changes: they reach ClickHouse if and only if it commits.
 */
export async function postCopies (transaction: TransactionSql, copies: PersonsCopies): Promise<void> {
  for (const target of COPY_TABLES) {
    for (const { text, rowCount } of toChunks(copies[target])) {
      const rows = zstdCompressSync(text, { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
      await transaction`INSERT INTO persons_outbox (target, rows, row_count) VALUES (${target}, ${rows}, ${rowCount})`
    }
  }
}

function * toChunks (rows: readonly CopyRow[]): Generator<{ text: string, rowCount: number }> {
  let lines: string[] = []
  let length = 0
  for (const row of rows) {
    const line = JSON.stringify(row)
    lines.push(line)
    length += line.length + 1
    if (length >= MAX_CHUNK_LENGTH) {
      yield { text: lines.join('\n') + '\n', rowCount: lines.length }
      lines = []
      length = 0
    }
  }
  if (lines.length > 0) yield { text: lines.join('\n') + '\n', rowCount: lines.length }
}

interface OutboxRow {
  id: number
  target: string
  rows: Buffer
}

/** Rows of the outbox a turn; each holds at most some 4 MB of text. */
const TURN_ROWS = 16

/**
 * Codes of ClickHouse that mean "these very rows can never be stored": they do not parse. Everything else (network,
 * memory, too many parts, a missing table) is waited out.
 */
const REFUSED_CODES = new Set([
  '6', // CANNOT_PARSE_TEXT
  '26', // CANNOT_PARSE_QUOTED_STRING
  '27', // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  '38', // CANNOT_PARSE_DATE
  '41', // CANNOT_PARSE_DATETIME
  '72', // CANNOT_PARSE_NUMBER
  '117', // INCORRECT_DATA
  '376', // CANNOT_PARSE_UUID
  '467' // CANNOT_PARSE_BOOL
])

/**
 * Moves what waits in the outbox to ClickHouse, oldest first, until none is left or the signal fires.
 *
 * A copy is deleted from the outbox after it is stored. A crash in between stores it again, which changes nothing: the
 * tables keep the highest version of a row. For the same reason several processes may drain at once.
 *
 * @returns how many rows were stored, and how many rows of the outbox were marked as refused because ClickHouse will
 *   never take them (column `refused`).
 * @throws when Postgres or ClickHouse cannot be reached; everything not yet stored is still in the outbox.
 */
export async function drainPersonsOutbox (options: {
  sql: Sql
  clickhouse: ClickHouse
  signal?: AbortSignal
}): Promise<{ stored: number, refused: number }> {
  const total = { stored: 0, refused: 0 }
  while (options.signal?.aborted !== true) {
    const turn = await drainTurn(options.sql, options.clickhouse)
    total.stored += turn.stored
    total.refused += turn.refused
    if (turn.taken < TURN_ROWS) break
  }
  return total
}

async function drainTurn (
  sql: Sql, clickhouse: ClickHouse
): Promise<{ taken: number, stored: number, refused: number }> {
  return await sql.begin(async (transaction) => {
    const waiting = await transaction<(OutboxRow & { rowCount: number })[]>`
      SELECT id, target, rows, row_count AS "rowCount" FROM persons_outbox
      WHERE refused IS NULL ORDER BY id LIMIT ${TURN_ROWS} FOR UPDATE SKIP LOCKED`
    const refused = await storeCopies(clickhouse, waiting)
    for (const [id, reason] of refused) {
      await transaction`UPDATE persons_outbox SET refused = ${reason} WHERE id = ${id}`
    }
    const done = waiting.filter(({ id }) => !refused.has(id))
    if (done.length > 0) await transaction`DELETE FROM persons_outbox WHERE id = ANY (${done.map(({ id }) => id)})`
    return {
      taken: waiting.length,
      stored: done.reduce((sum, { rowCount }) => sum + rowCount, 0),
      refused: refused.size
    }
  })
}

/** Inserts by table. Returns the rows of the outbox that ClickHouse refused, with the reason. */
async function storeCopies (clickhouse: ClickHouse, waiting: readonly OutboxRow[]): Promise<Map<number, string>> {
  const refused = new Map<number, string>()
  for (const [target, rows] of Map.groupBy(waiting, (row) => row.target)) {
    if (await tryInsert(clickhouse, target, rows) === null) continue
    // One of them is bad: each by itself, so that its neighbours are stored.
    for (const row of rows) {
      const reason = await tryInsert(clickhouse, target, [row])
      if (reason !== null) refused.set(row.id, reason)
    }
  }
  return refused
}

async function tryInsert (clickhouse: ClickHouse, target: string, rows: readonly OutboxRow[]): Promise<string | null> {
  try {
    const { stream } = await clickhouse.exec({
      query: `INSERT INTO ${target} FORMAT JSONEachRow`,
      values: Readable.from(rows.map((row) => zstdDecompressSync(row.rows)), { objectMode: false }),
      clickhouse_settings: { async_insert: 0, input_format_json_read_objects_as_strings: 1 }
    })
    // An insert answers nothing, but the socket is free only once that was read.
    await text(stream)
    return null
  } catch (error) {
    if (error instanceof ClickHouseError && REFUSED_CODES.has(error.code)) return error.message
    throw error
  }
}
