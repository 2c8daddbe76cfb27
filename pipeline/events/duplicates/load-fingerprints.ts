import type { Readable } from 'node:stream'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { FINGERPRINT_BYTES, type FingerprintKey, FingerprintWriter } from '../../../schema/wire/frame-message.ts'
import { FingerprintMemory } from './fingerprint-memory.ts'

/**
 * How many rows were inserted in each ten seconds of the last day, newest first: the writer remembers as many as its
 * memory holds. Reads one column of the last day's granules (minmax index on `inserted_at`).
 */
const FIND_SPAN = `
  SELECT toUnixTimestamp(toStartOfInterval(inserted_at, toIntervalSecond(10))) AS second, count() AS rows
  FROM events WHERE inserted_at >= now64(3) - toIntervalHour({hours:UInt32})
  GROUP BY second ORDER BY second DESC`

/** Events that were inserted since a moment, with what their fingerprints are made of. */
const READ_EVENTS = `
  SELECT project_id, uuid, toInt64(toUnixTimestamp64Milli(timestamp)), toString(event), distinct_id
  FROM events WHERE inserted_at >= fromUnixTimestamp64Milli(toInt64({since:UInt64}))
  FORMAT RowBinary`

/** How far back and how much is remembered at most: a day, and what fits into one generation. */
const MAX_HOURS = 24
const MAX_ROWS = 3_000_000

/** Clocks of ClickHouse and NATS may differ by so much, in milliseconds. */
const CLOCK_MARGIN_MS = 5000

/** What a row of RowBinary begins with: UInt32, UUID and Int64. */
const FIXED_ROW_BYTES = 28

/**
 * Rebuilds the memory of a partition from what ClickHouse holds, for a process that takes the partition over.
 *
 * The rows do not say by which partition they came, so all partitions' rows are loaded; that costs room, not truth.
 *
 * @param key  Null while the deployment's secret is not known: the events' checks are unknown then, and who resembles
 *             one of them is looked up.
 * @throws when ClickHouse does not answer.
 */
export async function loadFingerprints (
  clickhouse: ClickHouse, key: FingerprintKey | null, now: () => number = Date.now
): Promise<FingerprintMemory> {
  const since = await findSince(clickhouse, now())
  const memory = new FingerprintMemory(since === 0 ? 0 : since + CLOCK_MARGIN_MS, { keyId: key?.id ?? '' })
  const { stream } = await clickhouse.exec({
    query: READ_EVENTS, query_params: { since }
  })
  await addRows(memory, new FingerprintWriter(key), stream)
  return memory
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

async function addRows (memory: FingerprintMemory, writer: FingerprintWriter, stream: Readable): Promise<void> {
  const fingerprint = new DataView(new ArrayBuffer(FINGERPRINT_BYTES))
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const uuid = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let at = 0
    for (;;) {
      const event = readString(bytes, at + FIXED_ROW_BYTES)
      const distinctId = event === null ? null : readString(bytes, event.to)
      if (event === null || distinctId === null) break
      writer.write(fingerprint, 0, {
        projectId: bytes.readUInt32LE(at),
        uuid,
        uuidOffset: at + 4,
        timestamp: Number(bytes.readBigInt64LE(at + 20)),
        event: bytes.toString('utf8', event.from, event.to),
        distinctId: bytes,
        from: distinctId.from,
        to: distinctId.to
      })
      memory.add(fingerprint.getUint32(0, true), fingerprint.getUint32(4, true), fingerprint.getUint32(8, true))
      at = distinctId.to
    }
    rest = bytes.subarray(at)
  }
}

/** Where the bytes of a String of RowBinary are; null when they are not all there yet. */
function readString (bytes: Uint8Array, at: number): { from: number, to: number } | null {
  let length = 0
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++]
    if (byte === undefined) return null
    length += (byte & 0x7f) * 2 ** shift
    if (byte < 0x80) break
  }
  return at + length <= bytes.length ? { from: at, to: at + length } : null
}
