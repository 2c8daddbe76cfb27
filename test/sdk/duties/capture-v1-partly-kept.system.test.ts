/**
 * A batch of Capture V1 of which a part could not be kept, as posthog-node takes it: what the server owes it, each
 * duty a test. The loss is real: the stream takes no message of one partition, and the spool is full.
 */
import { randomUUID } from 'node:crypto'
import { DiscardPolicy, jetstreamManager } from '@nats-io/jetstream'
import { PostHog } from 'posthog-node'
import t from 'tap'
import type { EventRow, RequestContext } from '../../../ingest/event.ts'
import { routeRow } from '../../../ingest/publish/event-partitions.ts'
import { takePublishedEvents } from '../../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../../../ingest/testing/start-test-ingest.ts'
import { EVENTS_STREAM } from '../../../schema/wire/streams.ts'
import { createTestClickHouse } from '../../support/test-stores.ts'

process.env.POSTHOG_CAPTURE_MODE = 'v1'

interface Attempt {
  headers: Record<string, string>
  uuids: string[]
  status: number
  retryAfter: string | null
  results: Record<string, { result: string }>
}

/** A batch of the stock client of which one partition of the stream takes nothing at first. */
interface PartlyKept {
  /** Uuids of the events that were kept, refused, and lost at first. */
  kept: string
  dropped: string
  lost: string
  requests: Attempt[]
  stored: string[]
}

/** The spool is full and the subject of one partition, too, until the first answer was given. */
async function sendPartlyKept (): Promise<PartlyKept> {
  const [clickhouse, ingest] = await Promise.all([
    createTestClickHouse(t), startTestIngest(t, { MILLRACE_SPOOL_MAX_BYTES: '1', MILLRACE_PARTITIONS: '2' })
  ])
  const [free = '', full = ''] = [0, 1].map((partition) =>
    Array.from({ length: 50 }, (_, i) => `v${i}`).find((id) => partitionOf(id) === partition))
  const { streams } = await jetstreamManager(ingest.connection)
  const oneEach = { discard: DiscardPolicy.New, discard_new_per_subject: true, max_msgs_per_subject: 1 }
  await streams.update(EVENTS_STREAM, oneEach)
  const [kept, dropped, lost] = [randomUUID(), randomUUID(), randomUUID()]
  await ingest.post('/batch/', { api_key: PROJECT_KEY, batch: [{ event: 'first', distinct_id: full }] })

  const requests: Attempt[] = []
  const client = new PostHog(PROJECT_KEY, {
    host: ingest.url,
    flushAt: 3,
    disableCompression: true,
    fetchRetryDelay: 20,
    fetch: async (url, init) => {
      const answer = await fetch(url, init as RequestInit)
      const { results } = await answer.clone().json() as Attempt
      const uuids = (JSON.parse(String(init.body)) as { batch: { uuid: string }[] }).batch.map(({ uuid }) => uuid)
      const headers = Object.fromEntries(new Headers(init.headers as Record<string, string>))
      const { status } = answer
      requests.push({ headers, uuids, status, retryAfter: answer.headers.get('retry-after'), results })
      await streams.update(EVENTS_STREAM, { discard_new_per_subject: false, max_msgs_per_subject: -1 })
      return answer
    }
  })
  client.capture({ distinctId: free, event: 'kept', uuid: kept })
  client.capture({ distinctId: 'x'.repeat(201), event: 'dropped', uuid: dropped })
  client.capture({ distinctId: full, event: 'lost', uuid: lost })
  await client.shutdown()
  const rows = await takePublishedEvents(ingest.connection, clickhouse)
  return { kept, dropped, lost, requests, stored: rows.map(({ uuid }) => uuid) }
}

/** The partition of two in which the events of a visitor are. */
function partitionOf (distinctId: string): number {
  const row = { projectId: 1, distinctId, timestamp: Date.now() } as unknown as EventRow
  return routeRow(row, { receivedAt: Date.now() } as unknown as RequestContext, 2).partition
}

const OK = { result: 'ok' }
const partly = await sendPartlyKept()
const [first, second] = partly.requests

t.test('V1: an answer with an event to send again says when', async (t) => {
  t.match(first, { status: 200, retryAfter: /^[1-9]\d*$/ })
})

t.test('V1: of a batch that was partly kept, what was kept is answered ok and not sent again', async (t) => {
  t.same(first?.results[partly.kept], OK)
  t.notOk(second?.uuids.includes(partly.kept))
})

t.test('V1: of a batch that was partly kept, what was dropped is not sent again', async (t) => {
  t.match(first?.results[partly.dropped], { result: 'drop' })
  t.notOk(second?.uuids.includes(partly.dropped))
})

t.test('V1: of a batch that was partly kept, what was lost comes again alone, and is kept', async (t) => {
  t.match(first?.results[partly.lost], { result: 'retry', details: 'not_persisted' })
  t.same(second?.results, { [partly.lost]: OK })
  t.equal(partly.requests.length, 2)
})

t.test('V1: of a batch that was partly kept, each event is stored once under its uuid', async (t) => {
  t.equal(partly.stored.filter((id) => id === partly.kept || id === partly.lost).length, 2)
  t.equal(partly.stored.length, 3, 'and the one that filled the partition')
})

t.test('V1: the second attempt of a batch that was partly kept is taken as attempt 2', async (t) => {
  t.same(partly.requests.map(({ headers, status }) => [headers['posthog-attempt'], status]), [['1', 200], ['2', 200]])
})

t.test('V1: both attempts of a batch that was partly kept have one id', async (t) => {
  t.match(first?.headers['posthog-request-id'], /./)
  t.equal(first?.headers['posthog-request-id'], second?.headers['posthog-request-id'])
})

t.test('V1: the answer about a batch that was partly kept says when to come back, the last one does not', async (t) => {
  t.same(partly.requests.map(({ retryAfter }) => retryAfter), ['1', null])
})

t.end()
