import { type Readable } from 'node:stream'
import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { writeFingerprint } from '../../../schema/frame-message.ts'
import { readSql } from '../../read-sql.ts'
import { KnownUuids } from './known-uuids.ts'

const FIND_SPAN = readSql(import.meta.dirname, 'find-remembered-span.sql')
const READ_UUIDS = readSql(import.meta.dirname, 'read-stored-uuids.sql')

/** How far back and how much is remembered at most: a day, and what fits into one generation. */
const MAX_HOURS = 24
const MAX_ROWS = 3_000_000

/** Clocks of ClickHouse and NATS may differ by so much, in milliseconds. */
const CLOCK_MARGIN_MS = 5000

/** A row of RowBinary: UInt32 and UUID. */
const ROW_BYTES = 20

/**
 * Rebuilds the memory of a partition from what ClickHouse holds, for a process that takes the partition over.
 *
 * The rows do not say by which partition they came, so all partitions' rows are loaded; that costs room, not truth.
 *
 * @throws when ClickHouse does not answer.
 */
export async function loadKnownUuids (clickhouse: ClickHouse, now: () => number = Date.now): Promise<KnownUuids> {
  const since = await findSince(clickhouse, now())
  const known = new KnownUuids(since === 0 ? 0 : since + CLOCK_MARGIN_MS)
  const { stream } = await clickhouse.exec({
    query: `${READ_UUIDS} FORMAT RowBinary`, query_params: { since }
  })
  await addRows(known, stream)
  return known
}

/** @returns the moment since which all inserted rows fit, epoch ms; 0 when the whole table does. */
async function findSince (clickhouse: ClickHouse, now: number): Promise<number> {
  const spans = await query<[second: number, rows: string]>(clickhouse, FIND_SPAN, { hours: MAX_HOURS })
  let total = 0
  let since = now
  for (const [second, rows] of spans) {
    total += Number(rows)
    // The newest span is taken whole, however many rows it has.
    if (total > MAX_ROWS && since !== now) return since
    since = second * 1000
  }
  const [all] = await query<[string]>(clickhouse, 'SELECT count() FROM events', {})
  return Number(all?.[0] ?? 0) <= total ? 0 : now - MAX_HOURS * 3_600_000
}

async function query<T> (clickhouse: ClickHouse, sql: string, params: Record<string, unknown>): Promise<T[]> {
  const result = await clickhouse.query({ query: sql, query_params: params, format: 'JSONCompactEachRow' })
  return await result.json<T>()
}

async function addRows (known: KnownUuids, stream: Readable): Promise<void> {
  const fingerprint = new DataView(new ArrayBuffer(8))
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let at = 0
    for (; at + ROW_BYTES <= bytes.length; at += ROW_BYTES) {
      writeFingerprint(fingerprint, 0, view.getUint32(at, true), view, at + 4)
      known.add(fingerprint.getUint32(0, true), fingerprint.getUint32(4, true))
    }
    rest = bytes.subarray(at)
  }
}
