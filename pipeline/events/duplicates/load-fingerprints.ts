import type { Readable } from 'node:stream'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { FINGERPRINT_BYTES, type FingerprintKey, FingerprintWriter } from '../../../schema/wire/frame-message.ts'
import { FingerprintMemory, slotsFor } from './fingerprint-memory.ts'

/** Events that were inserted since a moment, with what their fingerprints are made of. */
const READ_EVENTS = `
  SELECT project_id, uuid, toInt64(toUnixTimestamp64Milli(timestamp)), toString(event), distinct_id
  FROM events WHERE inserted_at >= fromUnixTimestamp64Milli(toInt64({since:UInt64}))
  FORMAT RowBinary`

/** How far back and how much is remembered at most: a day, and what fits into one generation. */
const MAX_HOURS = 24
const MAX_ROWS = 3_000_000

/** Clocks of ClickHouse, NATS and devices may differ by so much, in milliseconds. */
export const CLOCK_MARGIN_MS = 5000

/** What a row of RowBinary begins with: UInt32, UUID and Int64. */
const FIXED_ROW_BYTES = 28

/**
 * Rebuilds the memory of partitions from what ClickHouse holds, for a process that takes them over.
 *
 * The rows do not say by which partition they came, so all partitions' rows are loaded; that costs room, not truth.
 *
 * @param key  Null while the deployment's secret is not known: the events' checks are unknown then, and who resembles
 *             one of them is looked up.
 * @throws when ClickHouse does not answer.
 */
export async function loadFingerprints (
  clickhouse: ClickHouse, key: FingerprintKey | null
): Promise<FingerprintMemory> {
  const { since, rows } = await findSpan(clickhouse, Date.now())
  const memory = new FingerprintMemory(since === 0 ? 0 : since + CLOCK_MARGIN_MS, {
    keyId: key?.id ?? '', slots: slotsFor(rows)
  })
  const { stream } = await clickhouse.exec({ query: READ_EVENTS, query_params: { since } })
  await addRows(memory, new FingerprintWriter(key), stream)
  return memory
}

/** @returns the moment since which all inserted rows fit, epoch ms, 0 when the whole table does; and their number. */
async function findSpan (clickhouse: ClickHouse, now: number): Promise<{ since: number, rows: number }> {
  const spans = await countInserted(clickhouse, { seconds: 10, hours: MAX_HOURS })
  let total = 0
  let since = now
  for (const { second, rows } of spans) {
    // The newest span is taken whole, however many rows it has.
    if (total + rows > MAX_ROWS && since !== now) return { since, rows: total }
    total += rows
    since = second * 1000
  }
  const [all] = await queryRows<{ rows: number }>(clickhouse, 'SELECT toFloat64(count()) AS rows FROM events')
  return { since: (all?.rows ?? 0) <= total ? 0 : now - MAX_HOURS * 3_600_000, rows: total }
}

/**
 * Number of rows inserted in each span of seconds, newest first. Reads one column of the last hours'
 * granules (minmax index on `inserted_at`).
 */
export async function countInserted (
  clickhouse: ClickHouse, params: { seconds: number, hours: number }
): Promise<Array<{ second: number, rows: number }>> {
  return await queryRows(clickhouse, `
    SELECT toUnixTimestamp(toStartOfInterval(inserted_at, toIntervalSecond({seconds:UInt32}))) AS second,
           toFloat64(count()) AS rows
    FROM events WHERE inserted_at >= now64(3) - toIntervalHour({hours:UInt32})
    GROUP BY second ORDER BY second DESC`, params)
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
      const timestamp = Number(bytes.readBigInt64LE(at + 20))
      writer.write(fingerprint, 0, {
        projectId: bytes.readUInt32LE(at), uuid, uuidOffset: at + 4, timestamp,
        event: bytes.toString('utf8', event.from, event.to), distinctId: bytes, from: distinctId.from, to: distinctId.to
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
