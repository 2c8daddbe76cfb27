import { COPY_TABLES, encodeCopies, noCopies, type PersonsCopies, toCopyTime } from '../../schema/wire/persons-copies.ts'
import type { TransactionSql } from './connect-postgres.ts'

/** Writes copies to the outbox, in the transaction of the changes: they reach ClickHouse if and only if it commits. */
export async function postCopies (transaction: TransactionSql, copies: PersonsCopies): Promise<void> {
  for (const target of COPY_TABLES) await postRows(transaction, target, copies[target])
}

/** Writes rows of another table to the outbox. */
export async function postRows (
  transaction: TransactionSql, target: string, copies: readonly Record<string, unknown>[]
): Promise<void> {
  for (const { rows, rowCount } of encodeCopies(copies)) {
    await transaction`INSERT INTO persons_outbox (target, rows, row_count) VALUES (${target}, ${rows}, ${rowCount})`
  }
}

/** Hides persons from queries at once, long before their rows are deleted. */
export async function postTombstones (
  transaction: TransactionSql,
  { projectId, uuids, version }: { projectId: number, uuids: readonly string[], version: number }
): Promise<void> {
  const persons = uuids.map((uuid) => ({
    project_id: projectId, person_id: uuid, properties: {}, is_identified: false, created_at: toCopyTime(0), version,
    is_deleted: 1 as const
  }))
  await postCopies(transaction, { ...noCopies(), persons })
}
