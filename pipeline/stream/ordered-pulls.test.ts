import { jetstream, jetstreamManager, type JetStreamManager } from '@nats-io/jetstream'
import { pino } from 'pino'
import t from 'tap'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { startTcpFaultProxy } from '../../test/faults/system/tcp-fault-proxy.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { OrderedPulls, recreateConsumer } from './ordered-pulls.ts'

const STREAM = 'THINGS'
const CONSUMER = 'reader'

interface OpenedPulls {
  pulls: OrderedPulls
  read: string[]
  /** Why it was lost, once for each time that it said so. */
  lost: string[]
}

interface Stream {
  url: string
  connection: NatsConnection
  manager: JetStreamManager
  publish: (...texts: string[]) => Promise<void>
  recreate: () => Promise<void>
  /** Reads in pulls of ten messages and 1000 bytes. */
  open: (hasRoom?: () => boolean) => OpenedPulls
}

async function startStream (t: TestContext): Promise<Stream> {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(() => connection.close())
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name: STREAM, subjects: ['things'] })
  const recreate = async (): Promise<void> => {
    await recreateConsumer(manager, { stream: STREAM, name: CONSUMER, subject: 'things', ackWaitMs: 60_000 })
  }
  await recreate()
  return {
    url,
    connection,
    manager,
    recreate,
    async publish (...texts) {
      for (const text of texts) await jetstream(connection).publish('things', text)
    },
    open (hasRoom = () => true) {
      const read: string[] = []
      const lost: string[] = []
      const pulls = new OrderedPulls({
        connection,
        stream: STREAM,
        consumer: CONSUMER,
        pull: { messages: 10, bytes: 1000 },
        hasRoom,
        onMessage: (message) => read.push(message.string()),
        onLost: (why) => lost.push(why)
      })
      t.teardown(() => pulls.close())
      return { pulls, read, lost }
    }
  }
}

t.test('delivers every message in order, even those larger than a pull', async (t) => {
  const { publish, open } = await startStream(t)
  const texts = Array.from({ length: 35 }, (_, i) => i === 17 ? 'x'.repeat(5000) : String(i))

  await publish(...texts)
  const { read, lost } = open()
  await waitFor(() => read.length === texts.length)

  t.same(read, texts)
  t.same(lost, [])
})

t.test('asks for no more than there is room for', async (t) => {
  const { publish, open } = await startStream(t)
  await publish(...Array.from({ length: 25 }, (_, i) => String(i)))
  let hasRoom = true

  const { pulls, read } = open(() => hasRoom)
  hasRoom = false
  await waitFor(() => read.length === 10)
  hasRoom = true
  pulls.pullMore()
  await waitFor(() => read.length === 25)

  t.equal(pulls.deliveries, 25)
})

t.test('is lost, and ends every wait, when another reader re-creates the consumer', async (t) => {
  const { publish, recreate, open } = await startStream(t)
  const { pulls, read, lost } = open()
  await publish('first')
  await waitFor(() => read.length === 1)
  const waited = pulls.waitForMore(60_000, new AbortController().signal)

  await recreate()
  await waited

  t.match(lost, [/^NATS answered 409 .*deleted/i])
  await pulls.waitForMore(60_000, new AbortController().signal)
})

t.test('is lost at the first delivery after one that another client took', async (t) => {
  const { connection, publish, open } = await startStream(t)
  const thief = connection.subscribe('thief')
  connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${STREAM}.${CONSUMER}`, '{"batch":1}', { reply: 'thief' })
  await publish('stolen')
  await waitFor(() => thief.getReceived() === 1)

  const { read, lost } = open()
  await publish('seen', 'never seen')
  await waitFor(() => lost.length > 0)

  t.same(lost, ['expected delivery 1 but received 2'])
  t.same(read, [])
})

t.test('tells how long a message lay there while it was waited for', async (t) => {
  const { url, publish } = await startStream(t)
  const proxy = await startTcpFaultProxy({ port: Number(new URL(url).port) })
  t.teardown(() => proxy.close())
  const connection = await connectNats({ url: `nats://127.0.0.1:${proxy.port}`, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(() => connection.close())
  await publish('backlog')
  const publishedAt = Date.now()
  await waitFor(() => Date.now() - publishedAt > 300)
  const delays: number[] = []
  const openedAt = Date.now()
  const pulls = new OrderedPulls({
    connection,
    stream: STREAM,
    consumer: CONSUMER,
    pull: { messages: 10, bytes: 1000 },
    hasRoom: () => true,
    onMessage: () => {},
    onDelay: (seconds) => delays.push(seconds),
    onLost: (why) => t.fail(why)
  })
  t.teardown(() => pulls.close())
  await waitFor(() => delays.length === 1)
  t.ok(delays[0]! <= (Date.now() - openedAt) / 1000, 'what was stored before anybody asked is not late')

  proxy.set('stall')
  await publish('late')
  const storedAt = Date.now()
  await waitFor(() => Date.now() - storedAt > 700)
  proxy.set('pass')
  await waitFor(() => delays.length === 2)

  t.ok(delays[1]! >= 0.6, `${delays[1]} s`)
})

t.test('tells nothing once it is closed', async (t) => {
  const { manager, publish, open } = await startStream(t)
  const { pulls, read, lost } = open()

  pulls.close()
  await publish('late')
  await manager.consumers.delete(STREAM, CONSUMER)
  pulls.pullMore()
  await pulls.waitForMore(60_000, new AbortController().signal)

  t.same([...read, ...lost], [])
})
