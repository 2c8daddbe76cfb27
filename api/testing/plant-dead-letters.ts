import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import type { NewDeadLetter } from '../../schema/wire/dead-letter-message.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import type { TestContext } from '../../test/support/test-context.ts'

const TEN_MEGABYTES = 10_485_760

/** Starts a NATS with the streams, and dead-letters the given messages. */
export async function plantDeadLetters (
  t: TestContext, letters: Partial<NewDeadLetter>[]
): Promise<{ url: string, connection: NatsConnection }> {
  const { url } = await startTestNats(t)
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url, name: 'test', logger })
  t.teardown(async () => await connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: TEN_MEGABYTES, deadLetterMaxBytes: TEN_MEGABYTES })
  for (const [index, letter] of letters.entries()) {
    await publishDeadLetter(connection, {
      stage: 'writer', reason: 'refused', error: 'no room', subject: 'events.live.0', sequence: index + 1,
      headers: { 'Millrace-Layout': '1' }, body: Buffer.from('{"some": "body"}'), id: `letter-${index}`, ...letter
    })
  }
  return { url, connection }
}
