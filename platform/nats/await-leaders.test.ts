import { pino } from 'pino'
import t from 'tap'
import { startTestNats } from '../../test/support/test-processes.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { awaitLeaders } from './await-leaders.ts'
import { connectNats, type NatsConnection } from './connect-nats.ts'

const NEEDED = { streams: [EVENTS_STREAM], cluster: true }
const never = new AbortController().signal

/** A connection whose questions are answered as the function says; null: never. */
function answerWith (
  answer: (subject: string, asked: number) => object | null
): { connection: NatsConnection, asked: string[] } {
  const asked: string[] = []
  const connection = {
    isClosed: () => false,
    request: async (subject: string) => {
      asked.push(subject)
      const json = answer(subject, asked.filter((each) => each === subject).length)
      return json === null ? await new Promise(() => {}) : { json: () => json }
    }
  }
  return { connection: connection as unknown as NatsConnection, asked }
}

t.test('a single server answers at once, also that a stream is missing', async (t) => {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(async () => await connection.close())
  await awaitLeaders(connection, { streams: ['NOT_THERE'], cluster: true }, never)
})

t.test('asks again while nobody answers, the answer is 503 or the stream has no leader', async (t) => {
  const { connection, asked } = answerWith((subject, count) => {
    if (subject === '$JS.API.INFO') return count === 1 ? { error: { code: 503 } } : {}
    return count === 1 ? null : count === 2 ? { cluster: {} } : { cluster: { leader: 'a' } }
  })
  await awaitLeaders(connection, NEEDED, never)
  t.equal(asked.filter((subject) => subject.endsWith(EVENTS_STREAM)).length, 3)
  t.equal(asked.filter((subject) => subject === '$JS.API.INFO').length, 2)
})

t.test('callers of one connection share the questions, and each may give up', async (t) => {
  let isLed = false
  const { connection, asked } = answerWith(() => isLed ? {} : null)
  const stop = new AbortController()
  const first = awaitLeaders(connection, NEEDED, never)
  const second = awaitLeaders(connection, NEEDED, stop.signal)
  t.equal(asked.length, 2, 'one question to each, for both')
  stop.abort()
  await second
  isLed = true
  await first
  await awaitLeaders(connection, NEEDED, never)
  t.ok(asked.length > 2, 'asked again by whoever comes later')
})
