/** The newest events of a distinct id, wherever they are. */
import { describeRows } from '../../../schema/wire/native-block.ts'
import { decodeFrame } from '../../../schema/wire/frame-codec.ts'
import { scanDeadLetters } from '../../../platform/dead-letters/read-dead-letters.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { frameOf } from '../../../schema/wire/frame-message.ts'
import { listDroppedEvents, readTraces } from './read-traces.ts'
import { makeReceipt, type Receipt, receiptOfLetter } from './describe-receipt.ts'
import type { FindReceiptDeps } from './find-receipt.ts'
import { searchStream, type StreamSearch } from './search-stream.ts'
import { type DistinctIdQuery, listStoredEvents } from './stored-events.ts'

interface ListedReceipt {
  /** When ingest received the event, ISO 8601. */
  receivedAt: string
  receipt: Receipt
}

/** Longest search among dead letters, in milliseconds. */
const LETTERS_MS = 1000

/**
 * Lists the newest events of a distinct id: stored ones, dead letters, what waits in the stream, and drops that are
 * remembered. Of several fates of a uuid the one that came last counts, as in a receipt.
 *
 * @throws while ClickHouse or NATS is unavailable.
 */
export async function listReceipts (
  query: DistinctIdQuery, { clickhouse, nats }: Pick<FindReceiptDeps, 'clickhouse' | 'nats'>
): Promise<{ results: Receipt[], searched: StreamSearch['searched'] }> {
  const { search, letters } = await nats(async (connection) => ({
    search: await searchStream(query, connection, { enough: query.limit }),
    letters: await listLetters(query, connection)
  }))
  const [stored, dropped] = await Promise.all([
    listStoredEvents(query, clickhouse), listDroppedEvents(query, clickhouse)
  ])
  const { searched } = search
  const receipts = new Map<string, ListedReceipt>()
  const add = (found: readonly ListedReceipt[]): void => {
    for (const each of found) if (!receipts.has(each.receipt.uuid)) receipts.set(each.receipt.uuid, each)
  }
  const traces = await readTraces({ projectId: query.projectId, uuids: stored.map(({ uuid }) => uuid) }, clickhouse)
  add(stored.map((event, index) => ({
    receivedAt: event.received_at, receipt: makeReceipt(event.uuid, 'stored', { stored: event, duplicates: traces[index]?.duplicates ?? null })
  })))
  add(letters)
  add(search.found.map((event) => ({ receivedAt: event.received_at, receipt: makeReceipt(event.uuid, 'waiting', { waiting: event, searched }) })))
  add(dropped.map((event) => ({ receivedAt: event.received_at, receipt: makeReceipt(event.uuid, 'dropped', { dropped: event }) })))
  const newest = [...receipts.values()].sort((a, b) => a.receivedAt < b.receivedAt ? 1 : -1)
  return { searched, results: newest.slice(0, query.limit).map(({ receipt }) => receipt) }
}

const LETTERS_OF_EVENTS = [{ stage: 'schema', reason: 'not_met' }, { stage: 'writer', reason: 'refused' }] as const

/** A letter says only in its body whose event it is. */
async function listLetters (
  { projectId, distinctId }: DistinctIdQuery, connection: NatsConnection
): Promise<ListedReceipt[]> {
  const found: ListedReceipt[] = []
  const deadline = performance.now() + LETTERS_MS
  for (const kind of LETTERS_OF_EVENTS) {
    const filter = { ...kind, project: projectId, withBodies: true }
    for await (const { letter, body } of scanDeadLetters(connection, filter)) {
      if (performance.now() > deadline) break
      const [row] = await describe(body, letter.rows)
      if (row?.distinct_id !== distinctId || letter.uuid === null) continue
      const named = { ...letter, event: letter.event ?? String(row.event) }
      found.push({ receivedAt: String(row.received_at), receipt: receiptOfLetter(letter.uuid, named) })
    }
  }
  return found
}

async function describe (body: Uint8Array, rows: number | null): Promise<Record<string, unknown>[]> {
  try {
    return rows === null ? [] : describeRows(await decodeFrame(frameOf(body, rows), { columns: 6 }))
  } catch {
    return []
  }
}
