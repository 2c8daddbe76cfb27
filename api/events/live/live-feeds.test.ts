import t from 'tap'
import { queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../../platform/logger.ts'
import { minuteOf, toWarningRow, WARNINGS_TABLE, type WarningReason, type WarningTotal } from '../../../schema/wire/ingestion-warnings.ts'
import type { TestContext } from '../../../test/support/test-context.ts'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import type { FeedBatch } from './feed-batch.ts'
import { createLiveFeeds } from './live-feeds.ts'
import { ArrivalReader } from './read-arrivals.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const everything = { project: 1, event: '', distinctId: '' }

type Client = Awaited<ReturnType<typeof createTestClickHouse>>['client']

/** Inserts events as the pipeline does: many at once, which have one token. */
async function insert (client: Client, events: readonly Record<string, unknown>[]): Promise<void> {
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: events.map((event) => ({ project_id: 1, uuid: crypto.randomUUID(), event: 'paid', distinct_id: 'ann', timestamp: '2026-11-29 12:00:00', received_at: '2026-11-29 12:00:01', properties: '{}', ...event })),
    clickhouse_settings: { insert_deduplication_token: crypto.randomUUID(), async_insert: 0 }
  })
}

/** Of all warnings: a test that begins at the end of a minute goes on in the next one. */
const MINUTE = minuteOf(Date.now())

function sampleOf (event: string, receivedAt = Date.now()): WarningTotal['samples'][number] {
  return { receivedAt, event, distinctId: 'ann', uuid: '', lib: 'web', libVersion: '1', value: 'fault' }
}

async function warn (
  client: Client, reason: WarningReason, count: number, samples: WarningTotal['samples'], projectId = 1
): Promise<void> {
  const total = { projectId, reason, minute: MINUTE, count, samples }
  await client.insert({ table: WARNINGS_TABLE, values: [toWarningRow('p1', total)], format: 'JSONEachRow' })
}

t.test('a look has what was stored since the last one, whatever its time, project or name', async (t) => {
  const { client } = await createTestClickHouse(t)
  await insert(client, [{ event: 'before' }])
  const reader = new ArrivalReader(client, everything)
  const ofPaid = new ArrivalReader(client, { ...everything, event: 'paid', distinctId: 'bob' })
  t.same(await reader.read(), { matched: 0, events: [] })
  t.same(await ofPaid.read(), { matched: 0, events: [] })

  await insert(client, [
    { event: 'late', timestamp: '2020-01-01 00:00:00', properties: '{"n":12345678901234567890}', received_at: '2026-11-29 12:00:00.500' },
    { lib: 'web', lib_version: '1.2' }, { project_id: 2 }, { distinct_id: 'bob', properties: JSON.stringify({ text: 'x'.repeat(20_000) }) }
  ])
  const { matched, events } = await reader.read()
  t.equal(matched, 3)
  t.match(events, [
    { at: Date.UTC(2026, 10, 29, 12, 0, 0, 500), event: 'late', drop: null, isQuarantined: false, sentCharacters: 0 },
    { event: 'paid' }, { event: 'paid' }
  ])
  t.match(events[0]?.sent, /^\{"event":"late","distinct_id":"ann","uuid":"[-0-9a-f]{36}","timestamp":"2020-01-01T00:00:00.000Z","properties":\{"n":12345678901234567890\}\}$/)
  t.match(events.find(({ distinctId }) => distinctId === 'bob'), { sent: '', sentCharacters: 20_011 })
  t.match(await ofPaid.read(), { matched: 1, events: [{ distinctId: 'bob' }] })
  t.same(await reader.read(), { matched: 0, events: [] })
})

t.test('what was stored before the first look is never new, also when the query of that look was late', async (t) => {
  const { client } = await createTestClickHouse(t)
  await insert(client, [{ event: 'before' }])
  await new Promise((resolve) => setTimeout(resolve, 3000))
  let lateMs = 1500
  const late = {
    query: async (options: Parameters<Client['query']>[0]) => {
      await new Promise((resolve) => setTimeout(resolve, lateMs))
      return await client.query(options)
    }
  }
  const reader = new ArrivalReader(late as unknown as Client, everything)
  await reader.read()
  lateMs = 0

  t.same(await reader.read(), { matched: 0, events: [] })
})

t.test('of many events the newest are shown, and all are counted', async (t) => {
  const { client } = await createTestClickHouse(t)
  const reader = new ArrivalReader(client, everything)
  await reader.read()

  const names = ['zz', 'aa', 'mm']
  for (let batch = 0; batch < 3; batch++) {
    await insert(client, Array.from({ length: 500 }, (_, index) => ({
      event: names[index % 3], distinct_id: `${batch}`, received_at: `2026-11-29 12:00:0${batch}.${String(index).padStart(3, '0')}`
    })))
  }

  const { matched, events } = await reader.read()
  t.equal(matched, 1500)
  t.equal(events.length, 200)
  t.same([...new Set(events.map(({ distinctId }) => distinctId))], ['2'])
  t.same([...new Set(events.map(({ event }) => event))].sort(), ['aa', 'mm', 'zz'])
  t.equal(events.at(-1)?.at, Date.UTC(2026, 10, 29, 12, 0, 2, 499))
})

t.test('what was not stored comes with its reason: counts are exact, samples come once', async (t) => {
  const { client } = await createTestClickHouse(t)
  await warn(client, 'missing_event_name', 7, [sampleOf('old')])
  const reader = new ArrivalReader(client, everything)
  const ofNamed = new ArrivalReader(client, { ...everything, event: 'named' })
  await reader.read()
  await ofNamed.read()

  await warn(client, 'missing_event_name', 12, [sampleOf('named')])
  await warn(client, 'schema_quarantined', 1, [sampleOf('strict')])
  await warn(client, 'rate_limited', 3, [sampleOf('')])
  // About stored events, and of another project.
  await warn(client, 'schema_not_met', 5, [sampleOf('stored')])
  await warn(client, 'missing_event_name', 5, [sampleOf('elsewhere')], 2)

  const { matched, events } = await reader.read()
  t.equal(matched, 5 + 1 + 3)
  t.match(events.sort((a, b) => a.event.localeCompare(b.event)), [
    { event: '', drop: 'rate_limited', isQuarantined: false },
    { event: 'named', drop: 'missing_event_name', isQuarantined: false, value: 'fault', sent: '' },
    { event: 'strict', drop: null, isQuarantined: true }
  ])
  t.match(await ofNamed.read(), { matched: 1, events: [{ event: 'named' }] })
  await warn(client, 'missing_event_name', 13, [])
  t.same(await reader.read(), { matched: 1, events: [] })
})

t.test('a look reads few granules of a large table', async (t) => {
  const { client } = await createTestClickHouse(t)
  const plans: string[] = []
  const explaining = {
    query: async (options: Parameters<Client['query']>[0]) => {
      const plan = await client.query({ ...options, query: `EXPLAIN indexes = 1 ${options.query}`, format: 'TabSeparatedRaw' })
      plans.push(await plan.text())
      return await client.query(options)
    }
  }
  await client.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties)
      SELECT 1, generateUUIDv4(number), 'seen', toString(number % 1000), at, at, at, '{}'
      FROM (SELECT number, now64(3) - toIntervalSecond(60 + number) AS at FROM numbers(400000))`
  })
  const reader = new ArrivalReader(explaining as unknown as Client, everything)
  await reader.read()
  await insert(client, [{}])
  plans.length = 0

  t.match(await reader.read(), { matched: 1, events: { length: 1 } })

  const ofEvents = plans.filter((plan) => plan.includes('inserted_at_index'))
  t.equal(ofEvents.length, 2)
  for (const plan of ofEvents) {
    const [, read, all] = /inserted_at_index[\s\S]*?Granules: (\d+)\/(\d+)/.exec(plan)!.map(Number)
    t.ok(all! > 40 && read! <= 2, `${read} of ${all} granules`)
  }
})

/** Begins a feed, and keeps what it sends. */
async function watch (
  t: TestContext, feeds: ReturnType<typeof createLiveFeeds>,
  { isReading = () => true, ...wanted }: { isReading?: () => boolean, event?: string } = {}
): Promise<{ batches: FeedBatch[], close: () => void }> {
  const batches: FeedBatch[] = []
  const send = (batch: string): void => { batches.push(JSON.parse(batch) as FeedBatch) }
  const close = await feeds.open({ ...everything, ...wanted, send, isReading })
  t.teardown(close)
  return { batches, close }
}

t.test('twenty who watch the same share its queries; one that does not read, or leaves, holds up nobody', async (t) => {
  const { client } = await createTestClickHouse(t)
  let queries = 0
  const counting = { query: async (options: Parameters<Client['query']>[0]) => { queries++; return await client.query(options) } }
  const feeds = createLiveFeeds({ clickhouse: counting as unknown as Client, logger })
  const watchers = await Promise.all(Array.from({ length: 20 }, async (_, index) =>
    await watch(t, feeds, { isReading: () => index !== 0 })))
  // Two a look; a second look follows a first one that takes a second.
  t.ok(queries < watchers.length, `${queries} queries`)

  await insert(client, [{ event: 'first' }, { event: 'first' }])
  await waitFor(() => watchers.slice(1).every(({ batches }) => batches.at(-1)?.shown === 2))
  watchers.at(-1)!.close()
  const late = await watch(t, feeds)
  await insert(client, [{ event: 'second' }])
  const reading = [late, ...watchers.slice(1, -1)]
  await waitFor(() => reading.every(({ batches }) => batches.at(-1)?.events.at(-1)?.event === 'second'))

  t.match(watchers[1]!.batches.at(-1), { connected: true, matched: 3, shown: 3 })
  t.match(late.batches.at(-1), { matched: 1, shown: 1 }, 'it counts from the moment in which it began')
  t.match(watchers.at(-1)!.batches.at(-1), { matched: 2, shown: 2 }, 'who left hears nothing')
  t.same(watchers[0]!.batches, [], 'what is not read is not sent')

  for (const { close } of [late, ...watchers]) close()
  const before = queries
  await new Promise((resolve) => setTimeout(resolve, 1500))
  t.ok(queries <= before + 4, 'nothing is asked while nobody watches')
})

t.test('a watcher sees that ClickHouse is away, and watches on when it is back', async (t) => {
  const { client } = await createTestClickHouse(t)
  let isAway = true
  const failing = {
    query: async (options: Parameters<Client['query']>[0]) => {
      if (isAway) throw new Error('connect ECONNREFUSED')
      return await client.query(options)
    }
  }
  const feeds = createLiveFeeds({ clickhouse: failing as unknown as Client, logger })
  const { batches } = await watch(t, feeds)
  t.match(batches, [{ connected: false, matched: 0 }])

  await insert(client, [{ event: 'since the beginning' }])
  isAway = false
  await waitFor(() => batches.at(-1)?.connected === true)
  t.match(batches.at(-1), { matched: 1, events: [{ event: 'since the beginning' }] })
  isAway = true
  await waitFor(() => batches.at(-1)?.connected === false)
  await insert(client, [{ event: 'meanwhile' }])
  isAway = false
  await waitFor(() => batches.at(-1)?.events.at(-1)?.event === 'meanwhile')
  t.same((await queryRows<{ n: number }>(client, 'SELECT toUInt32(count()) AS n FROM events')), [{ n: 2 }])
})

t.test('different watches, and watchers, are limited in number', async (t) => {
  const { client } = await createTestClickHouse(t)
  const feeds = createLiveFeeds({ clickhouse: client, logger })

  const closes = await Promise.all(Array.from({ length: 20 }, async (_, index) => (await watch(t, feeds, { event: `e${index}` })).close))
  t.ok(feeds.isFullFor(everything))
  t.notOk(feeds.isFullFor({ ...everything, event: 'e0' }), 'another one may watch what is watched')
  closes.push(...await Promise.all(Array.from({ length: 10 }, async () => (await watch(t, feeds, { event: 'e0' })).close)))
  t.ok(feeds.isFullFor({ ...everything, event: 'e0' }))

  for (const close of closes) close()
  t.notOk(feeds.isFullFor(everything))
})
