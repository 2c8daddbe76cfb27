import { randomUUID } from 'node:crypto'
import { constants, zstdCompressSync } from 'node:zlib'
import { jetstream } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { encodeNativeBlock } from '../../platform/clickhouse/frame-codec.ts'
import { uuidToNative } from '../../platform/clickhouse/native-block.ts'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { ROW_LAYOUT } from '../../schema/event-row.ts'
import { FINGERPRINT_BYTES, writeFingerprint } from '../../schema/frame-message.ts'
import { eventsSubject, HEADER, type EventClass } from '../../schema/streams.ts'
import { buildEventBlock, type PlainEvent } from '../../test/support/event-block.ts'

/** Makes an event for tests; everything may be overridden. */
export function makeEvent (overrides: Partial<PlainEvent> = {}): PlainEvent {
  return {
    project_id: 1,
    uuid: randomUUID(),
    event: 'order paid',
    distinct_id: 'user-1',
    timestamp: Date.now(),
    received_at: Date.now(),
    properties: '{"amount":42,"plan":"pro"}',
    property_types: 'eNamount\0eSplan',
    ...overrides
  }
}

export function makeEvents (
  count: number, overrides: (index: number) => Partial<PlainEvent> = () => ({})
): PlainEvent[] {
  return Array.from({ length: count }, (_, index) => makeEvent(overrides(index)))
}

/**
 * The payload of one message with these events.
 *
 * @param columns  Of the block, when it is not that of the current layout.
 */
export function encodePayload (
  events: readonly PlainEvent[], columns: (name: string) => boolean = () => true
): Uint8Array {
  const fingerprints = new DataView(new ArrayBuffer(events.length * FINGERPRINT_BYTES))
  events.forEach((event, row) => {
    const uuid = uuidToNative(event.uuid)
    const view = new DataView(uuid.buffer, uuid.byteOffset, 16)
    writeFingerprint(fingerprints, row * FINGERPRINT_BYTES, event.project_id, view, 0)
  })
  const block = buildEventBlock(events)
  const chosen = { ...block, columns: block.columns.filter(({ name }) => columns(name)) }
  const frame = zstdCompressSync(encodeNativeBlock(chosen), {
    params: { [constants.ZSTD_c_compressionLevel]: 1 }
  })
  return Buffer.concat([new Uint8Array(fingerprints.buffer), frame])
}

export interface PublishOptions {
  eventClass?: EventClass
  partition?: number
  headers?: Record<string, string>
  payload?: Uint8Array
}

/**
 * Publishes one message with these events as ingest does.
 *
 * @returns its sequence.
 */
export async function publishEvents (
  connection: NatsConnection, events: readonly PlainEvent[], options: PublishOptions = {}
): Promise<number> {
  const headersOfMessage = headers()
  const values = {
    [HEADER.layout]: String(ROW_LAYOUT),
    [HEADER.rows]: String(events.length),
    [HEADER.received]: String(Date.now()),
    ...options.headers
  }
  for (const [name, value] of Object.entries(values)) headersOfMessage.set(name, value)
  const subject = eventsSubject(options.eventClass ?? 'live', options.partition ?? 0)
  const payload = options.payload ?? encodePayload(events)
  return (await jetstream(connection).publish(subject, payload, { headers: headersOfMessage })).seq
}
