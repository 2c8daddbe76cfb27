import t from 'tap'
import { createMetrics } from '../../platform/metrics.ts'
import { createRateLimit, type RateLimit } from './rate-limit.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

function createLimit (eventsPerSecond: number): { limit: RateLimit, wait: (ms: number) => void } {
  let time = 1_000_000
  return {
    limit: createRateLimit(eventsPerSecond, { metrics: createMetrics('ingest'), now: () => time }),
    wait: (ms) => { time += ms }
  }
}

t.test('lets ten seconds of events through at once, then as many as come in by the second', async (t) => {
  const { limit, wait } = createLimit(100)

  limit.check(1)
  limit.spend(1, 1000)
  t.throws(() => limit.check(1), { code: 'throttled', status: 429, details: { retryAfterSeconds: 1 } })
  limit.check(2)
  wait(10)
  limit.check(1)
})

t.test('takes a batch of any size, and then nothing until it is paid', async (t) => {
  const { limit, wait } = createLimit(100)

  limit.check(1)
  limit.spend(1, 2000)

  t.throws(() => limit.check(1), { code: 'throttled', details: { retryAfterSeconds: 10 } })
  wait(9999)
  t.throws(() => limit.check(1), { code: 'throttled', details: { retryAfterSeconds: 1 } })
  wait(10)
  limit.check(1)
  // It never saves up more than ten seconds' worth.
  wait(3_600_000)
  limit.spend(1, 1001)
  t.throws(() => limit.check(1), { code: 'throttled' })
})

t.test('limits nothing unless it is asked to', async (t) => {
  const { limit } = createLimit(0)

  limit.spend(1, 1e12)
  limit.check(1)
})

t.test('answers 429 with Retry-After, for small and for large bodies', async (t) => {
  const ingest = await startTestIngest(t, { MILLRACE_INGEST_RATE_LIMIT: '100' })
  const send = async (count: number, padding = 0): Promise<Response> => await ingest.post('/batch/', {
    api_key: PROJECT_KEY,
    batch: Array.from({ length: count }, () => ({ event: 'e', distinct_id: 'd', properties: { text: 'x'.repeat(padding) } }))
  })

  // Paid for in 40 seconds: longer than the rest takes on a busy machine.
  t.equal((await send(5000, 100)).status, 200)
  for (const padding of [0, 1000]) {
    const refused = await send(400, padding)
    t.equal(refused.status, 429)
    t.match(refused.headers.get('retry-after'), /^[1-9]\d*$/)
    t.match(await refused.json(), { type: 'throttled_error', code: 'throttled', attr: null })
  }
  t.equal(await ingest.metric('millrace_ingest_throttled_requests_total'), 2)
})
