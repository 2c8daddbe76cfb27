import { zstdCompressSync, constants } from 'node:zlib'
import { type TransactionSql } from '../postgres/connect-postgres.ts'

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
