import { jetstreamManager } from '@nats-io/jetstream'
import { pino } from 'pino'
import t from 'tap'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { EVENTS_STREAM, writerConsumer } from '../../schema/wire/streams.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { makeEvents, publishEvents } from '../testing/publish-events.ts'
import { EventsReader, openEventsReader } from './events-reader.ts'

t.test('finds out that a delivery was lost although no other one follows', async (t) => {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e7 })
  const reader = await openEventsReader(connection, { eventClass: 'live', number: 0 }, { maxBytes: 1e6 })
  t.teardown(() => reader.close())
  const consumer = writerConsumer('live', 0)
  const thief = connection.subscribe('thief')
  connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${EVENTS_STREAM}.${consumer}`, '{"batch":1}', { reply: 'thief' })
  // The server takes pulls in at its leisure: before that of the thief, both messages would come here.
  const manager = await jetstreamManager(connection)
  await waitFor(async () => (await manager.consumers.info(EVENTS_STREAM, consumer)).num_waiting === 2)

  // Pulls take turns: one message comes here, the other one goes to the thief.
  for (let i = 0; i < 2; i++) await publishEvents(connection, makeEvents(1))
  await waitFor(() => thief.getReceived() === 1 && reader.buffer.length === 1)
  t.equal(await reader.readPending(), 1)
  t.equal(reader.failure, null, 'the other one may be on its way')
  await reader.readPending()

  t.match(reader.failure, { code: 'MILLRACE_EVENTS_READER_LOST', message: /1 deliveries never arrived/ })
})

t.test('concludes from no server without a leader that a message is gone', async (t) => {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e7 })
  await publishEvents(connection, makeEvents(1))
  const manager = await jetstreamManager(connection)
  const reader = new EventsReader(connection, manager, { consumer: writerConsumer('live', 0), maxBytes: 1e6 })
  t.teardown(() => reader.close())
  t.equal(await reader.isInStream(1), true)
  t.equal(await reader.isInStream(2), false)

  const { info } = manager.streams
  manager.streams.info = async (...asked) => ({ ...await info.apply(manager.streams, asked), cluster: { leader: '' } })
  await t.rejects(reader.isInStream(2), { code: 'MILLRACE_STREAM_LEADERLESS' })
})
