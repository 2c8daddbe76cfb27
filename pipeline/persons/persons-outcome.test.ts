import t from 'tap'
import { listDeadLetters, readDeadLetterFill } from '../../platform/dead-letters/read-dead-letters.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import type { PersonUpdate } from '../../schema/persons-update.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { deadLetterUpdates, refuseUpdate, type RefusedUpdate } from './persons-outcome.ts'
import { made } from './testing/large-persons.ts'
import { testLogger } from './testing/start-persons-stores.ts'

t.test('dead-letters many updates at once, in their order, each with the sequence of its message', async (t) => {
  const nats = await startTestNats(t)
  const connection = await connectNats({ url: nats.url, name: 'test', logger: testLogger })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e8 })
  const updates = Array.from({ length: 200 }, (_, i): PersonUpdate => ({ ...made(i), kind: 'person', distinctId: `id-${i}` }))
  const item: RefusedUpdate = { reason: 'invalid_update', detail: 'not an object', payload: Buffer.from('[7]') }
  const messages = [
    { sequence: 5, publishedUs: 1, updates: updates.slice(0, 100), refused: [] },
    // The first one was sent again.
    { sequence: 9, publishedUs: 2, updates: [updates[0]!, ...updates.slice(100)], refused: [item] }
  ]
  const refused = [item, ...updates.map((update) => refuseUpdate(update, 'properties_too_large', 'too large'))]

  let waiting = 0
  let mostWaiting = 0
  const request = connection.request.bind(connection)
  t.intercept(connection, 'request', {
    value: async (...args: Parameters<typeof request>) => {
      mostWaiting = Math.max(mostWaiting, ++waiting)
      return await request(...args).finally(() => { waiting-- })
    }
  })
  const batch = { partition: 1, streamCreated: 'monday', messages }
  await deadLetterUpdates(connection, batch, refused)
  await deadLetterUpdates(connection, batch, refused)

  const letters = (await listDeadLetters(connection)).sort((a, b) => a.id - b.id)
  t.same(letters.map(({ uuid, sequence }) => [uuid, sequence]),
    [[null, 9], ...updates.map(({ uuid }, i) => [uuid, i < 100 ? 5 : 9])])
  t.ok(mostWaiting >= 32, `${mostWaiting} on their way at once`)
})

t.test('changes that are too large leave room for others, and wait for nobody when there is none', async (t) => {
  const nats = await startTestNats(t)
  const connection = await connectNats({ url: nats.url, name: 'test', logger: testLogger })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 2e6 })
  const tooLarge = Array.from({ length: 400 }, (_, i) => refuseUpdate(
    { ...made(i), kind: 'person', distinctId: `id-${i}`, set: { fill: 'x'.repeat(10_000) } }, 'properties_too_large', 'too large'))
  const batch = { partition: 1, streamCreated: 'monday', messages: [] }

  await deadLetterUpdates(connection, batch, tooLarge)
  const { letters, ratio } = await readDeadLetterFill(connection)
  t.ok(ratio > 0.85 && ratio < 0.95, `${letters} letters fill ${ratio} of it`)
  const other: RefusedUpdate = { reason: 'invalid_update', detail: 'not an object', payload: Buffer.alloc(5000, 1) }
  await deadLetterUpdates(connection, batch, [tooLarge[399]!, other])
  t.match(await listDeadLetters(connection, { reason: 'invalid_update' }), [{ reason: 'invalid_update' }])
  t.equal((await readDeadLetterFill(connection)).letters, letters + 1)
})
