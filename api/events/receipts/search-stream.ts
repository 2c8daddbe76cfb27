import { jetstreamManager, type StoredMsg } from '@nats-io/jetstream'
import { FINGERPRINT_BYTES, frameOf, hashUuid } from '../../../schema/wire/frame-message.ts'
import { EVENTS_STREAM, HEADER, processOfRequest } from '../../../schema/wire/streams.ts'
import { decodeFrame } from '../../../schema/wire/frame-codec.ts'
import { describeRows, uuidToNative } from '../../../schema/wire/native-block.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { readStreamInfo } from '../../../platform/nats/stream-info.ts'
import type { Found } from './describe-receipt.ts'

/** An event in a message of EVENTS that no partition has acknowledged yet. */
type WaitingEvent = Found<'waiting'>

export interface StreamSearch {
  found: WaitingEvent[]
  /** Messages that were searched, of those in the stream when the search began. */
  searched: { messages: number, of: number }
}

/** Which events: one uuid, or those of a distinct id. */
export type StreamQuery = { projectId: number } & ({ uuid: string } | { distinctId: string })

/** Longest search, in milliseconds: some hundred megabytes of messages. */
const SEARCH_MS = 1000

const BATCH_MESSAGES = 100
const BATCH_BYTES = 33_554_432

/** `project_id`, `uuid`, `event`, `distinct_id`, `timestamp` and `received_at` of every layout. */
const READ_COLUMNS = 6

/**
 * Reads the stream from its oldest message on, past its consumers and changing nothing, until it has seen all or the
 * time is over. By uuid it compares fingerprints and decodes only what matches; by distinct id it decodes each message.
 *
 * @param options.enough  Number of events that ends the search.
 */
export async function searchStream (
  query: StreamQuery, connection: NatsConnection, { enough = 1 }: { enough?: number } = {}
): Promise<StreamSearch> {
  const manager = await jetstreamManager(connection)
  const { messages: of, last_seq: last, first_seq: first } = (await readStreamInfo(manager, EVENTS_STREAM)).state
  const search: StreamSearch = { found: [], searched: { messages: 0, of } }
  const deadline = performance.now() + SEARCH_MS
  const seen = new Map<string, number>()
  let next = first
  const isOver = (): boolean => search.found.length >= enough || performance.now() > deadline
  if (of === 0) return search
  while (next <= last && !isOver()) {
    let got = 0
    const batch = await manager.direct.getBatch(EVENTS_STREAM, {
      seq: next, batch: BATCH_MESSAGES, max_bytes: BATCH_BYTES
    })
    for await (const message of batch) {
      got++
      next = message.seq + 1
      // What came since is younger than the question.
      if (message.seq > last || isOver()) continue
      const messagesAhead = seen.get(message.subject) ?? 0
      seen.set(message.subject, messagesAhead + 1)
      search.searched.messages++
      search.found.push(...await readMatches(message, query, messagesAhead))
    }
    if (got === 0) break
  }
  // What left meanwhile needs no search: it is stored, or a dead letter.
  if (next > last || search.searched.messages > of) search.searched.of = search.searched.messages
  return search
}

async function readMatches (message: StoredMsg, query: StreamQuery, messagesAhead: number): Promise<WaitingEvent[]> {
  const rows = Number(message.header.get(HEADER.rows))
  if (!(rows > 0 && message.data.length > rows * FINGERPRINT_BYTES)) return []
  if ('uuid' in query && !hasFingerprint(message.data, rows, query)) return []
  try {
    const block = await decodeFrame(frameOf(message.data, rows), { columns: READ_COLUMNS })
    return describeRows(block)
      .filter((row) => row.project_id === query.projectId &&
        ('uuid' in query ? row.uuid === query.uuid : row.distinct_id === query.distinctId))
      .map((row) => ({
        uuid: String(row.uuid),
        event: String(row.event),
        distinct_id: String(row.distinct_id),
        timestamp: String(row.timestamp),
        received_at: String(row.received_at),
        received_by: processOfRequest(message.header.get(HEADER.request)),
        partition: message.subject.slice(message.subject.indexOf('.') + 1),
        sequence: message.seq,
        published_at: message.time.toISOString(),
        messages_ahead: messagesAhead
      }))
  } catch {
    // No frame of events: its partition dead-letters it in its turn.
    return []
  }
}

function hasFingerprint (
  payload: Uint8Array, rows: number, { projectId, uuid }: { projectId: number, uuid: string }
): boolean {
  const native = uuidToNative(uuid)
  const hash = hashUuid({ projectId, uuid: new DataView(native.buffer, native.byteOffset, 16), uuidOffset: 0 })
  const view = new DataView(payload.buffer, payload.byteOffset, rows * FINGERPRINT_BYTES)
  for (let row = 0; row < rows; row++) if (view.getInt32(row * FINGERPRINT_BYTES, true) === hash) return true
  return false
}
