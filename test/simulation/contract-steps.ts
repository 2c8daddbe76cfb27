/** What the simulation counts on: the same steps against the real servers and against those in memory. */
import { jetstream, JetStreamApiError } from '@nats-io/jetstream'
import { createLookUpEvents, readIdentities } from '../../pipeline/events/duplicates/look-up-events.ts'
import { loadFingerprints } from '../../pipeline/events/duplicates/load-fingerprints.ts'
import type { PartitionMessage } from '../../pipeline/events/events-reader.ts'
import { INSERT_SETTINGS, INSERT_SETTINGS_VERSION, type InsertFrames } from '../../pipeline/events/insert/insert-frames.ts'
import { OrderedPulls, recreateConsumer } from '../../pipeline/stream/ordered-pulls.ts'
import { FencedError, newPartitionRecord, openPartitionRecords } from '../../pipeline/stream/partition-records.ts'
import { applyBatch } from '../../pipeline/persons/apply-batch.ts'
import { loadRecentUpdates, openProgress, type RecentUpdates } from '../../pipeline/persons/persons-progress.ts'
import { TEST_KEY } from '../../pipeline/testing/publish-events.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { pause } from '../../platform/intervals.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { manageJetStream } from '../../platform/nats/prepare-jetstream.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import { EVENTS_STREAM, eventsSubject } from '../../schema/wire/streams.ts'
import { createRandom } from '../support/random.ts'
import { KNOWN_MESSAGES } from './known-messages.ts'
import { makeUpdate } from './simulated-persons.ts'

const SUBJECT = eventsSubject('live', 0)
const CONSUMER = { stream: EVENTS_STREAM, name: 'writer-live-0', subject: SUBJECT, ackWaitMs: 60_000 }

/** @returns what was seen, step by step. */
export async function takeContractSteps (stores: {
  connection: NatsConnection, clickhouse: ClickHouse, insertFrames: InsertFrames, sql: Sql
}): Promise<unknown[]> {
  return [
    ...await useStream(stores.connection), ...await useRecords(stores.connection), ...await useEvents(stores),
    ...await usePersons(stores.sql)
  ]
}

async function useStream (connection: NatsConnection): Promise<unknown[]> {
  const seen: unknown[] = []
  const manager = await manageJetStream(connection)
  const client = jetstream(connection)
  for (const id of ['a', 'b', 'b', 'c', 'd']) {
    const { seq, duplicate } = await client.publish(SUBJECT, id.repeat(id === 'd' ? 5000 : 5), { msgID: id })
    seen.push(`published ${id}: ${seq} ${duplicate}`)
  }
  /** Reads a number of messages, and acknowledges the first of them. */
  async function read (count: number): Promise<void> {
    await recreateConsumer(manager, CONSUMER)
    const acknowledge: string[] = []
    const lost: string[] = []
    const pulls = new OrderedPulls({
      connection, stream: CONSUMER.stream, consumer: CONSUMER.name, pull: { messages: 10, bytes: 2000 },
      hasRoom: () => true,
      onMessage: (message, { sequence, delivery, ackSubject }) => {
        seen.push(`delivery ${delivery} of ${sequence}: ${message.string().slice(0, 5)}`)
        acknowledge.push(ackSubject)
      },
      onLost: (why) => lost.push(why)
    })
    while (acknowledge.length < count && lost.length === 0) await pulls.waitForMore(1000, new AbortController().signal)
    connection.publish(acknowledge[0] ?? '')
    const { delivered, num_pending: pending } = await manager.consumers.info(EVENTS_STREAM, CONSUMER.name)
    const { state: { messages, first_seq: first, last_seq: last } } = await manager.streams.info(EVENTS_STREAM)
    seen.push({ delivered: delivered.consumer_seq, pending, messages, first, last })
    await manager.consumers.delete(EVENTS_STREAM, CONSUMER.name)
    while (lost.length === 0) await pause(50, new AbortController().signal)
    seen.push(...lost)
    // Of a consumer that is gone: nothing is acknowledged.
    connection.publish(acknowledge[1] ?? '')
  }
  await read(4)
  await read(3)
  for (const sequence of [1, 4]) {
    const message = await manager.streams.getMessage(EVENTS_STREAM, { seq: sequence })
    seen.push(message?.subject ?? null)
  }
  seen.push(await manager.consumers.info(EVENTS_STREAM, CONSUMER.name).then(() => 'there', codeOf))
  return seen
}

async function useRecords (connection: NatsConnection): Promise<unknown[]> {
  const records = await openPartitionRecords(connection, { replicas: 1 })
  const partition = { eventClass: 'live', number: 3 } as const
  const write = async (owner: string, revision: number): Promise<unknown> =>
    await records.replace(partition, { ...newPartitionRecord('life'), owner }, revision)
      .then((next) => next > revision, (error: unknown) => error instanceof FencedError)
  const before = await records.read(partition)
  await records.replace(partition, newPartitionRecord('life'), 0)
  const { revision } = await records.read(partition)
  return [
    before, await write('late', 0), await write('first', revision), await write('second', revision),
    (await records.read(partition)).record?.owner
  ]
}

async function useEvents ({ clickhouse, insertFrames }: {
  clickhouse: ClickHouse, insertFrames: InsertFrames
}): Promise<unknown[]> {
  const [first, second] = KNOWN_MESSAGES.slice(0, 2).map(({ payload, identities }) =>
    ({ frame: frameOf(payload, identities.length), rows: identities.length, payload }) as unknown as PartitionMessage)
  const settings = INSERT_SETTINGS[INSERT_SETTINGS_VERSION]!
  const insert = async (messages: readonly PartitionMessage[], token: string): Promise<void> => {
    await insertFrames({ frames: messages.map(({ frame }) => frame), token, settings })
  }
  const count = async (): Promise<unknown> => {
    const result = await clickhouse.query({ query: 'SELECT count() FROM events', format: 'JSONCompactEachRow' })
    return Number((await result.json<[string]>())[0]?.[0])
  }
  await insert([first!], 'one')
  const afterFirst = await count()
  await insert([first!], 'one')
  const afterRepeat = await count()
  await insert([second!], 'two')
  const lookUp = createLookUpEvents(clickhouse)
  const identities = [...await readIdentities(first!) ?? [], ...await readIdentities(second!) ?? []]
  const memory = await loadFingerprints(clickhouse, TEST_KEY)
  return [
    afterFirst, afterRepeat, await count(), await lookUp(identities), await lookUp(identities, { insertToken: 'two' }),
    await lookUp(identities.map((each) => ({ ...each, projectId: 9 }))), memory.coveredSince,
    [first!, second!].map(({ payload }) => {
      const view = new DataView(payload.buffer, payload.byteOffset)
      return memory.recall(view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true))
    })
  ]
}

async function usePersons (sql: Sql): Promise<unknown[]> {
  const random = createRandom(7)
  await openProgress(sql, 1)
  const late = await loadRecentUpdates(sql, 1)
  const apply = async (from: number, recent: RecentUpdates): Promise<unknown> => await applyBatch({
    partition: 1,
    streamCreated: 'life',
    messages: [{ sequence: from, publishedUs: from, updates: updates.slice(from, from + 20), refused: [] }]
  }, { sql, recent, deadLetterUpdates: async () => [] })
    .then(({ applied, deduplicated, merges }) => ({ applied, deduplicated, merges }), (error: unknown) => String(error))
  const updates = Array.from({ length: 60 }, (_, number) => makeUpdate(number, random))
  const seen = [await apply(1, await loadRecentUpdates(sql, 1)), await apply(21, late)]
  seen.push(await apply(21, await loadRecentUpdates(sql, 1)), await apply(15, await loadRecentUpdates(sql, 1)))
  return seen
}

function codeOf (error: unknown): unknown {
  return error instanceof JetStreamApiError ? error.code : error
}
