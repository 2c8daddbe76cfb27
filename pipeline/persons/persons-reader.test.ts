import { jetstream } from '@nats-io/jetstream'
import { pino } from 'pino'
import t from 'tap'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { personsSubject } from '../../schema/wire/streams.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { openPersonsReader } from './persons-reader.ts'

/** More than two pulls bring. */
const MESSAGES = 250

t.test('keeps its place when the server says that a pull is complete', async (t) => {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e7 })
  for (let number = 0; number < MESSAGES; number++) {
    await jetstream(connection).publish(personsSubject(3), String(number))
  }
  const never = new AbortController().signal

  const reader = await openPersonsReader(3, { connection })
  t.teardown(() => reader.close())
  const read: string[] = []
  while (read.length < MESSAGES) {
    await reader.waitForMessages(5000, never)
    const taken = reader.take(1000)
    if (taken.length === 0) break
    read.push(...taken.map((message) => Buffer.from(message.data).toString()))
  }

  t.same(read, Array.from({ length: MESSAGES }, (_, number) => String(number)))
})
