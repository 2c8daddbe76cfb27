/** Compares the books with what was published, stored and dead-lettered. */
import { HEADER, DEAD_LETTER_STREAM, PARTITIONS_BUCKET } from '../../schema/wire/streams.ts'
import { type LedgerEntry, toLedgerRow } from '../../schema/wire/ledger.ts'
import type { PartitionRecord } from '../../pipeline/stream/partition-records.ts'
import type { StoredMessage } from './fake-stream.ts'
import type { SimulatedSystem } from './simulated-system.ts'

/**
 * Once nothing is on its way any more.
 *
 * @param published  Every message that was ever stored in the stream.
 */
export function compareBooks ({ nats, clickhouse }: SimulatedSystem, published: readonly StoredMessage[]): string[] {
  const books = new Map(clickhouse.ledger)
  for (const { data } of nats.stream(`KV_${PARTITIONS_BUCKET}`).messages.values()) {
    const { ledger } = JSON.parse(Buffer.from(data).toString()) as PartitionRecord
    for (const [key, entry] of Object.entries<LedgerEntry>(ledger?.entries ?? {})) {
      const row = toLedgerRow(key, entry)
      books.set(`${entry.source} ${String(row.project_id)} ${String(row.minute)}`, row)
    }
  }
  const sum = (column: string): number => [...books.values()].reduce((total, row) => total + Number(row[column]), 0)
  const expected = {
    accepted: published.reduce((total, { headers }) => total + Number(headers.get(HEADER.rows)), 0),
    dead_lettered: nats.stream(DEAD_LETTER_STREAM).messages.size,
    duplicates: clickhouse.traces.size
  }
  const wrong = Object.entries(expected).filter(([column, value]) => sum(column) !== value)
    .map(([column, value]) => `the books say ${column} ${sum(column)}, not ${value}`)
  const left = sum('accepted') - sum('duplicates') - sum('dead_lettered')
  if (left !== clickhouse.rows().length) wrong.push(`the books say that ${left} rows are stored, not ${clickhouse.rows().length}`)
  return wrong
}
