/** Messages of a partition as a test sends them, and which of their rows are kept. */
import { randomUUID } from 'node:crypto'
import type { PlainEvent } from '../../../../test/support/event-block.ts'
import { frameOf } from '../../../../schema/wire/frame-message.ts'
import type { BatchRange } from '../../../stream/partition-records.ts'
import { encodePayload, TEST_KEY } from '../../../testing/publish-events.ts'
import type { ClickHouse } from '../../../../platform/clickhouse/connect-clickhouse.ts'
import type { PartitionMessage } from '../../events-reader.ts'

export interface Sent { message: PartitionMessage, events: PlainEvent[] }

let sequence = 0

/** The events of the messages that were sent. */
export const eventsOf = new WeakMap<PartitionMessage, PlainEvent[]>()

/** @param hasKey  Whether ingest knew the secret. */
export function send (events: PlainEvent[], hasKey = true): Sent {
  const payload = encodePayload(events, { key: hasKey ? TEST_KEY : null })
  sequence++
  const message: PartitionMessage = {
    sequence,
    storedAt: Date.now(),
    rows: events.length,
    layout: 1,
    receivedAt: Date.now(),
    oldestUuidAt: Infinity,
    keyId: hasKey ? TEST_KEY.id : '',
    payload,
    frame: frameOf(payload, events.length),
    headers: {},
    ackSubject: ''
  }
  eventsOf.set(message, events)
  return { message, events }
}

export function rangeOf (batch: readonly Sent[], deduplicated: BatchRange['deduplicated']): BatchRange {
  const [first, last] = [batch[0]!.message.sequence, batch.at(-1)!.message.sequence]
  return { first, last, messages: batch.length, layout: 1, settings: 1, receivedBy: [], deduplicated }
}

/** The rows that are to be inserted. */
export function keptOf (batch: readonly Sent[], deduplicated: BatchRange['deduplicated']): PlainEvent[] {
  const ranges = new Map(deduplicated)
  return batch.flatMap(({ message, events }) => events.filter((_, row) => {
    const out = ranges.get(message.sequence) ?? []
    for (let i = 0; i < out.length; i += 2) if (row >= out[i]! && row < out[i + 1]!) return false
    return true
  }))
}

export function makeUuid7 (ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** ClickHouse that gives these answers in turn. */
export function answerInTurn (answers: readonly unknown[][]): { clickhouse: ClickHouse, asked: () => number } {
  let asked = 0
  const query = async (): Promise<unknown> => ({ json: async () => answers[asked++] })
  return { clickhouse: { query } as unknown as ClickHouse, asked: () => asked }
}
