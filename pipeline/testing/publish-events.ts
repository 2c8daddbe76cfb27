import { randomUUID } from 'node:crypto'
import { constants, zstdCompressSync } from 'node:zlib'
import { jetstream } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { encodeNativeBlock } from '../../schema/wire/frame-codec.ts'
import { uuidToNative } from '../../schema/wire/native-block.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { ROW_LAYOUT } from '../../schema/wire/event-row.ts'
import { createFingerprintKey, FINGERPRINT_BYTES, type FingerprintKey, FingerprintWriter } from '../../schema/wire/frame-message.ts'
import { AcceptedCounter } from '../../schema/wire/ledger.ts'
import { eventsSubject, HEADER, type EventClass } from '../../schema/wire/streams.ts'
import { buildEventBlock, type PlainEvent } from '../../test/support/event-block.ts'

/** The secret of fingerprints in tests. */
export const TEST_KEY = createFingerprintKey(Buffer.from('0123456789abcdef'))

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
 * @param options.columns  Of the block, when it is not that of the current layout.
 * @param options.key      The secret of fingerprints; null when ingest did not know it.
 */
export function encodePayload (
  events: readonly PlainEvent[], options: { columns?: (name: string) => boolean, key?: FingerprintKey | null } = {}
): Uint8Array {
  const { columns = () => true, key = TEST_KEY } = options
  const fingerprints = new DataView(new ArrayBuffer(events.length * FINGERPRINT_BYTES))
  const writer = new FingerprintWriter(key)
  events.forEach((event, row) => {
    const uuid = uuidToNative(event.uuid)
    const distinctId = Buffer.from(event.distinct_id)
    writer.write(fingerprints, row * FINGERPRINT_BYTES, {
      projectId: event.project_id,
      event: event.event,
      timestamp: event.timestamp,
      uuid: new DataView(uuid.buffer, uuid.byteOffset, 16),
      uuidOffset: 0,
      distinctId,
      from: 0,
      to: distinctId.length
    })
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
  /** The secret of fingerprints; null when ingest did not know it. */
  key?: FingerprintKey | null
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
    [HEADER.accepted]: acceptedBy(events),
    ...(options.key === null ? {} : { [HEADER.fingerprintKey]: (options.key ?? TEST_KEY).id }),
    ...options.headers
  }
  for (const [name, value] of Object.entries(values)) headersOfMessage.set(name, value)
  const subject = eventsSubject(options.eventClass ?? 'live', options.partition ?? 0)
  const payload = options.payload ?? encodePayload(events, { ...(options.key !== undefined && { key: options.key }) })
  return (await jetstream(connection).publish(subject, payload, { headers: headersOfMessage })).seq
}

/** What the header of a message says of its events. */
export function acceptedBy (events: readonly PlainEvent[]): string {
  const counter = new AcceptedCounter()
  for (const event of events) counter.add(event.project_id, event.received_at ?? 0)
  return counter.take()
}
