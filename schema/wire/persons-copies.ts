/**
 * Copies of persons and groups on their way to ClickHouse: rows of `persons_outbox`, which holds the JSON lines of a
 * table, compressed. Whoever changes a person writes them in the transaction of the change; the pipeline inserts them.
 */
import { constants, zstdCompressSync } from 'node:zlib'

/** ClickHouse tables with copies of persons and groups. */
export const COPY_TABLES = ['persons', 'person_distinct_ids', 'person_overrides', 'groups'] as const

export type CopyTable = typeof COPY_TABLES[number]

/** One row of such a table, by column; `properties` is an object. */
export type CopyRow = Record<string, unknown> & { project_id: number, version: number, is_deleted: 0 | 1 }

/** Copies to write to the outbox, by table. */
export type PersonsCopies = Record<CopyTable, CopyRow[]>

/** Maximum uncompressed characters in one row of the outbox; limits the memory of the process that drains it. */
const MAX_CHUNK_LENGTH = 4_194_304

/** Empty lists for all tables. */
export function noCopies (): PersonsCopies {
  return { persons: [], person_distinct_ids: [], person_overrides: [], groups: [] }
}

/** Epoch milliseconds in the form that ClickHouse parses as DateTime64(3, 'UTC'). */
export function toCopyTime (epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 23).replace('T', ' ')
}

/** Rows of a table as rows of the outbox. */
export function * encodeCopies (
  copies: readonly Record<string, unknown>[]
): Generator<{ rows: Buffer, rowCount: number }> {
  let lines: string[] = []
  let length = 0
  const take = (): { rows: Buffer, rowCount: number } => {
    const rows = zstdCompressSync(`${lines.join('\n')}\n`, { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
    return { rows, rowCount: lines.length }
  }
  for (const copy of copies) {
    const line = JSON.stringify(copy)
    lines.push(line)
    length += line.length + 1
    if (length < MAX_CHUNK_LENGTH) continue
    yield take()
    lines = []
    length = 0
  }
  if (lines.length > 0) yield take()
}
