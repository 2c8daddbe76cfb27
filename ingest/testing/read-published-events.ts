import { AckPolicy, jetstream, jetstreamManager, type JsMsg } from '@nats-io/jetstream'
import { frameOf } from '../../schema/wire/frame-message.ts'
import { EVENTS_STREAM, HEADER, PERSONS_STREAM } from '../../schema/wire/streams.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { parseClickHouseUrl } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { TestClickHouse } from '../../test/support/test-stores.ts'

/** Takes every message of a stream, in order, and leaves the stream empty. */
export async function takeMessages (connection: NatsConnection, stream: string): Promise<JsMsg[]> {
  const manager = await jetstreamManager(connection)
  const { state } = await manager.streams.info(stream)
  if (state.messages === 0) return []
  const { name } = await manager.consumers.add(stream, { ack_policy: AckPolicy.Explicit })
  const consumer = await jetstream(connection).consumers.get(stream, name)
  const messages: JsMsg[] = []
  while (messages.length < state.messages) {
    const fetched: JsMsg[] = []
    // No more than there are: a fetch of more waits for them until it expires.
    const max = Math.min(100, state.messages - messages.length)
    // A fetch whose reader takes a second takes the server for gone, so nothing else is awaited meanwhile.
    for await (const message of await consumer.fetch({ max_messages: max, expires: 1000 })) fetched.push(message)
    for (const message of fetched) await message.ackAck()
    messages.push(...fetched)
  }
  await manager.consumers.delete(stream, name)
  return messages
}

/** Empties the streams before a test that shares them with others. */
export async function discardPublished (connection: NatsConnection): Promise<void> {
  const manager = await jetstreamManager(connection)
  for (const stream of [EVENTS_STREAM, PERSONS_STREAM]) await manager.streams.purge(stream)
}

/** A row of `events` as JSON; numbers of 64 bits are strings. */
export type StoredEvent = Record<string, unknown> & { uuid: string, event: string, properties: string }

/** Inserts what was published, as the writer would: the frames one after the other, unread. */
export async function storePublishedFrames (connection: NatsConnection, clickhouse: TestClickHouse): Promise<void> {
  const messages = await takeMessages(connection, EVENTS_STREAM)
  const frames = messages.map((message) => frameOf(message.data, Number(message.headers?.get(HEADER.rows))))
  // One insert takes a row of 100 monthly partitions at most; odd dates are a matter of single frames.
  for (let i = 0; i < frames.length; i += 20) await insertFrame(clickhouse.url, Buffer.concat(frames.slice(i, i + 20)))
}

/** Inserts what was published and reads back all that is stored. */
export async function storePublishedEvents (
  connection: NatsConnection, clickhouse: TestClickHouse
): Promise<StoredEvent[]> {
  await storePublishedFrames(connection, clickhouse)
  const result = await clickhouse.client.query({
    query: 'SELECT *, toUnixTimestamp64Milli(timestamp) AS time_ms FROM events ORDER BY distinct_id, event, uuid',
    format: 'JSONEachRow'
  })
  return await result.json<StoredEvent>()
}

/** Inserts what was published, reads it back and leaves the table empty: for tests that share a stack. */
export async function takePublishedEvents (
  connection: NatsConnection, clickhouse: TestClickHouse
): Promise<StoredEvent[]> {
  const events = await storePublishedEvents(connection, clickhouse)
  await clickhouse.client.command({ query: 'TRUNCATE TABLE events' })
  return events
}

export async function takePersonsUpdates (connection: NatsConnection): Promise<PersonsUpdate[]> {
  return (await takeMessages(connection, PERSONS_STREAM)).flatMap((message) => message.json<PersonsUpdate[]>())
}

/** @throws when ClickHouse refuses the frame, with its reason. */
async function insertFrame (url: string, frame: Uint8Array): Promise<void> {
  const { origin, database, headers } = parseClickHouseUrl(url)
  const query = encodeURIComponent('INSERT INTO events FORMAT Native')
  const response = await fetch(`${origin}/?database=${database}&query=${query}`, {
    method: 'POST', headers: { ...headers, 'content-encoding': 'zstd' }, body: Buffer.from(frame)
  })
  if (response.status !== 200) throw new Error(await response.text())
}
