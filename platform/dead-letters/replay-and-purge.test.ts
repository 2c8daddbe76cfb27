import { jetstreamManager } from '@nats-io/jetstream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { connectNats, type NatsConnection } from '../nats/connect-nats.ts'
import { ensureStreams } from '../nats/prepare-jetstream.ts'
import { publishDeadLetter } from './publish-dead-letter.ts'
import { readDeadLetters } from '../../test/support/read-letters.ts'
import { purgeDeadLetters, replayDeadLetters } from './replay-and-purge.ts'

/** More than one fetch of a scan. */
const LETTERS = 700

async function plant (t: Test): Promise<NatsConnection> {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(async () => await connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e7 })
  // Each waits five seconds for the disk: all at once, the last would wait for those before it.
  for (let from = 0; from < LETTERS; from += 50) {
    await Promise.all(Array.from({ length: 50 }, async (_, index) => await publishDeadLetter(connection, {
      stage: 'writer', reason: 'refused', error: 'x', subject: 'events.live.0', headers: {}, body: Buffer.from('{}'), id: `${from + index}`
    })))
  }
  return connection
}

async function countReplayed (connection: NatsConnection): Promise<number> {
  return (await (await jetstreamManager(connection)).streams.info(EVENTS_STREAM)).state.messages
}

t.test('two replays at once replay everything once', async (t) => {
  const connection = await plant(t)

  const [one, other] = await Promise.all([replayDeadLetters(connection), replayDeadLetters(connection)])

  t.equal(one.skipped + other.skipped, 0)
  t.ok(one.replayed + other.replayed >= LETTERS)
  t.same(await readDeadLetters(connection), [])
  t.equal(await countReplayed(connection), LETTERS)
})

t.test('a replay ends when another client removes the rest', async (t) => {
  const connection = await plant(t)
  let purge: ReturnType<typeof purgeDeadLetters> | undefined
  // The letters of its first fetch are replayed, those of the next one are gone.
  const replayed = await replayDeadLetters(connection, {
    onProgress: (done) => { if (done === 1) purge = purgeDeadLetters(connection) }
  })

  t.match(await purge, { matched: Number })
  t.ok(replayed.replayed <= LETTERS)
  t.same(await readDeadLetters(connection), [])
})

t.test('a purge counts what it removed itself', async (t) => {
  const connection = await plant(t)

  const purges = await Promise.all([purgeDeadLetters(connection), purgeDeadLetters(connection)])

  t.equal(purges[0].purged + purges[1].purged, LETTERS)
  t.same(await readDeadLetters(connection), [])
})
