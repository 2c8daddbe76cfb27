import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { createLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import { readDeadLetters } from '../../test/support/read-letters.ts'
import { purgeDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import type { PersonUpdate } from '../../schema/wire/persons-update.ts'
import { DEAD_LETTER_STREAM } from '../../schema/wire/streams.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { deadLetterUpdates } from './start-persons.ts'
import { type PersonsRefusal, refuseUpdate, type RefusedUpdate } from './persons-outcome.ts'
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
  const letters = { connection, hasRoom: createLetterRoom(connection) }
  t.same(await deadLetterUpdates(letters, batch, refused), [])
  t.same(await deadLetterUpdates(letters, batch, refused), [])

  const kept = (await readDeadLetters(connection)).sort((a, b) => a.id - b.id)
  t.same(kept.map(({ uuid, sequence }) => [uuid, sequence]),
    [[null, 9], ...updates.map(({ uuid }, i) => [uuid, i < 100 ? 5 : 9])])
  t.ok(mostWaiting >= 32, `${mostWaiting} on their way at once`)
})

t.test('refusals that clients can cause leave room for other projects and reasons, and are left out without room', async (t) => {
  const nats = await startTestNats(t)
  const connection = await connectNats({ url: nats.url, name: 'test', logger: testLogger })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 2e6 })
  const letters = { connection, hasRoom: createLetterRoom(connection) }
  const batch = { partition: 1, streamCreated: 'monday', messages: [] }
  const set = { fill: 'x'.repeat(10_000) }
  const refused = (reason: PersonsRefusal, projectId: number, count: number): RefusedUpdate[] =>
    Array.from({ length: count }, (_, i) =>
      refuseUpdate({ ...made(i), projectId, kind: 'person', distinctId: `id-${i}`, set }, reason, 'x'))
  const manager = await jetstreamManager(connection)
  const ratio = async (): Promise<number> => {
    const { state, config } = await manager.streams.info(DEAD_LETTER_STREAM)
    return state.bytes / config.max_bytes
  }

  for (const [at, reason] of (['properties_too_large', 'invalid_update', 'not_applicable', 'unknown_project'] as const).entries()) {
    const leftOut = await deadLetterUpdates(letters, batch, refused(reason, 1, 200))
    t.ok(at === 0 ? leftOut.length < 110 : leftOut.length === 200, `${reason}: ${leftOut.length} left out`)
  }
  const half = await ratio()
  t.ok(half > 0.45 && half < 0.55, `one project fills ${half} of it`)

  const others = await Promise.all([2, 3].map(async (project) => await deadLetterUpdates(letters, batch, refused('invalid_update', project, 100))))
  t.ok(others.every(({ length }) => length > 70 && length < 95), `others have a tenth each: ${others.map(({ length }) => 100 - length)} letters`)
  for (let project = 4; project < 12; project++) await deadLetterUpdates(letters, batch, refused('invalid_update', project, 100))
  const most = await ratio()
  t.ok(most > 0.85 && most < 0.95, `all of them ${most}`)

  const other: RefusedUpdate = { reason: 'invalid_json', detail: 'not JSON', payload: Buffer.alloc(5000, 1) }
  t.same(await deadLetterUpdates(letters, batch, [other]), [])
  t.match(await readDeadLetters(connection, { reason: 'invalid_json' }), [{ reason: 'invalid_json', project: null }])
  const many = Array.from({ length: 50 }, (_, i): RefusedUpdate => ({ ...other, payload: Buffer.alloc(10_000, i) }))
  t.ok((await deadLetterUpdates(letters, batch, many)).length > 20, 'a full stream is waited for by nobody')

  t.match(await purgeDeadLetters(connection, { project: 1 }), { purged: Number })
  // A reading of the stream is remembered for a second.
  await waitFor(async () => (await deadLetterUpdates(letters, batch, refused('not_applicable', 1, 10))).length === 0)
})
