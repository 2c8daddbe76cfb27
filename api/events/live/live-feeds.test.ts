import t from 'tap'
import { connectNats, type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { createLogger } from '../../../platform/logger.ts'
import { WatchLeases } from '../../../platform/nats/watch-leases.ts'
import { type ArrivedEvent, arrivedSubject, type Watch } from '../../../schema/wire/live-feed.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { startTestNats, type TestNats } from '../../../test/support/test-processes.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { LiveFeeds } from './live-feeds.ts'
import type { FeedBatch } from './live-routes.ts'

const logger = createLogger({ component: 'test', level: 'silent' })

interface Sides {
  nats: TestNats
  feeds: LiveFeeds
  /** The connection of ingest and the pipeline. */
  tier: NatsConnection
  /** Who watches, as those know it. */
  watches: () => readonly Watch[]
}

async function startSides (t: TestContext): Promise<Sides> {
  const nats = await startTestNats(t)
  const connect = async (name: string): Promise<NatsConnection> => await connectNats({ url: nats.url, name, logger })
  const [api, tier] = await Promise.all([connect('api'), connect('tier')])
  t.teardown(async () => { await Promise.all([api.close(), tier.close()]) })
  let watches: readonly Watch[] = []
  new WatchLeases((known) => { watches = known }).listen(tier)
  await tier.flush()
  return { nats, tier, feeds: new LiveFeeds({ connect: async () => api }), watches: () => watches }
}

const everything = { project: 1, event: '', distinctId: '' }

function keepIn (batches: FeedBatch[]): (batch: string) => void {
  return (batch) => { batches.push(JSON.parse(batch) as FeedBatch) }
}

function arrived (uuid: string): ArrivedEvent {
  return {
    at: 5, event: 'e', distinctId: 'd', uuid, lib: '', libVersion: '', key: '', drop: null, isQuarantined: false, sent: '{}', sentCharacters: 0
  }
}

t.test('a watcher sees what arrives for it, and exact counts', async (t) => {
  const { feeds, tier, watches } = await startSides(t)
  const batches: FeedBatch[] = []
  let isReading = true
  const close = await feeds.open({
    project: 1, event: 'e', distinctId: '', send: keepIn(batches), isReading: () => isReading
  })
  await waitFor(() => watches().length === 1)
  const [watch] = watches()
  t.match(watch, { project: 1, event: 'e', distinctId: '' })
  const report = (from: string, matched: number, events: ArrivedEvent[]): void =>
    tier.publish(arrivedSubject(watch!.id), JSON.stringify({ from, matched, events }))
  const last = (): FeedBatch => batches.at(-1)!

  report('one', 3, [arrived('a')])
  await waitFor(() => batches.some(({ events }) => events.length > 0))
  t.same(batches.flatMap(({ events }) => events).map(({ uuid }) => uuid), ['a'])
  t.match(last(), { connected: true, matched: 3, shown: 1 })

  isReading = false
  report('two', 1, [arrived('b')])
  report('one', 5, [arrived('c'), arrived('d')])
  report('two', 4, [])
  await tier.flush()
  isReading = true
  report('one', 2, [arrived('f')])
  await waitFor(() => last().matched === 11)
  t.ok(last().shown < 6, 'what came while nobody read is counted, and not kept; a count that begins again is added')

  close()
  await waitFor(() => watches().length === 0)
  t.notOk(feeds.isFullFor(everything))
})

t.test('a watcher is told when NATS goes, and watches on when it is back', async (t) => {
  const { nats, feeds, watches } = await startSides(t)
  const batches: FeedBatch[] = []
  const close = await feeds.open({ project: 1, event: '', distinctId: '', send: keepIn(batches), isReading: () => true })
  t.teardown(close)
  await waitFor(() => watches().length === 1 && batches.at(-1)?.connected === true)

  await nats.stop()

  await waitFor(() => watches().length === 0 && batches.at(-1)?.connected === false)
  await nats.restart()
  await waitFor(() => watches().length === 1 && batches.at(-1)?.connected === true)
})

t.test('twenty who watch the same share a watch; one that does not read, or leaves, holds up nobody', async (t) => {
  const { feeds, tier, watches } = await startSides(t)
  const watchers = await Promise.all(Array.from({ length: 20 }, async (_, index) => {
    const batches: FeedBatch[] = []
    const close = await feeds.open({ ...everything, send: keepIn(batches), isReading: () => index !== 0 })
    return { batches, close }
  }))
  await waitFor(() => watches().length > 0)
  const [watch] = watches()
  const report = (matched: number, events: ArrivedEvent[]): void =>
    tier.publish(arrivedSubject(watch!.id), JSON.stringify({ from: 'one', matched, events }))

  report(50, [arrived('a')])
  await waitFor(() => watchers.slice(1).every(({ batches }) => batches.at(-1)?.shown === 1))
  watchers.at(-1)!.close()
  const late: FeedBatch[] = []
  const close = await feeds.open({ ...everything, send: keepIn(late), isReading: () => true })
  report(70, [arrived('b')])
  const reading = [late, ...watchers.slice(1, -1).map(({ batches }) => batches)]
  await waitFor(() => reading.every((batches) => batches.at(-1)?.events.length === 1))

  t.equal(watches().length, 1)
  t.match(watchers[1]!.batches.at(-1), { matched: 70, shown: 2 })
  t.match(late.at(-1), { matched: 20, shown: 1 }, 'it counts from the moment in which it began')
  t.match(watchers.at(-1)!.batches.at(-1), { matched: 50, shown: 1 }, 'who left hears nothing')
  t.same(watchers[0]!.batches, [], 'what is not read is not sent')
  close()
  for (const { close } of watchers) close()
  await waitFor(() => watches().length === 0)
})

t.test('so many different watches, and so many watchers, are served at a time', async (t) => {
  const { feeds } = await startSides(t)
  const open = async (event: string): Promise<() => void> =>
    await feeds.open({ ...everything, event, send: () => {}, isReading: () => true })

  const closes = await Promise.all(Array.from({ length: 20 }, async (_, index) => await open(`e${index}`)))
  t.ok(feeds.isFullFor(everything))
  t.notOk(feeds.isFullFor({ ...everything, event: 'e0' }), 'another one may watch what is watched')
  closes.push(...await Promise.all(Array.from({ length: 10 }, async () => await open('e0'))))
  t.ok(feeds.isFullFor({ ...everything, event: 'e0' }))

  for (const close of closes) close()
  t.notOk(feeds.isFullFor(everything))
})
