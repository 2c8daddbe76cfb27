import { randomUUID } from 'node:crypto'
import { PostHog } from 'posthog-node'
import t from 'tap'
import type { ProjectQuota } from '../../schema/project-quotas.ts'
import type { WarningsMessage } from '../../schema/wire/ingestion-warnings.ts'
import { WARNINGS_STREAM } from '../../schema/wire/streams.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { discardPublished, type StoredEvent, takeMessages, takePublishedEvents } from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const [system, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
const { connection, postgres: { sql } } = system
const OTHER_KEY = 'phc_other_project'
await sql`INSERT INTO projects (id, name) VALUES (2, 'other')`
await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${OTHER_KEY}, 2, 'project')`

const NONE: ProjectQuota = { eventsPerSecond: null, burst: null, eventsPerMonth: null, beyond: 'reject', sampleRate: 0.1 }

let keys = 0

/** Sets the quota of project 1; resolves when ingest has it: quotas come with the keys, in one reading. */
async function limit (quota: Partial<ProjectQuota>): Promise<void> {
  const { eventsPerSecond, burst, eventsPerMonth, beyond, sampleRate } = { ...NONE, ...quota }
  await sql`DELETE FROM project_quotas WHERE project_id = 1`
  await sql`INSERT INTO project_quotas (project_id, events_per_second, burst, events_per_month, beyond, sample_rate)
    VALUES (1, ${eventsPerSecond}, ${burst}, ${eventsPerMonth}, ${beyond}, ${sampleRate})`
  const key = `phc_probe_${++keys}`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${key}, 2, 'project')`
  await waitFor(async () => (await system.post('/batch/', { api_key: key, batch: [event('probe', 'd')] })).status === 200)
  await discardPublished(connection)
  await warnings()
}

interface Sent { event: string, uuid: string, distinct_id: string, properties: object }

function event (name: string, distinctId: string, properties: object = {}): Sent {
  return { event: name, uuid: randomUUID(), distinct_id: distinctId, properties }
}

async function send (events: object[], key = PROJECT_KEY): Promise<Response> {
  return await system.post('/batch/', { api_key: key, batch: events })
}

async function warnings (): Promise<WarningsMessage[]> {
  return (await takeMessages(connection, WARNINGS_STREAM)).map((message) => message.json<WarningsMessage>())
}

async function stored (): Promise<StoredEvent[]> {
  return await takePublishedEvents(connection, clickhouse)
}

const people = (count: number, padding = 0): Sent[] =>
  Array.from({ length: count }, (_, index) => event('scroll', `person ${index}`, { text: 'x'.repeat(padding) }))

t.test('beyond the second: 429 with Retry-After, nothing of it taken, for every form of body; others send on', async (t) => {
  await limit({ eventsPerSecond: 1, burst: 50 })
  const before = await system.metric('millrace_ingest_quota_refused_requests_total{limit="second"}')

  t.equal((await send(people(90))).status, 200, 'a batch of any size')
  for (const padding of [0, 20_000]) {
    const refused = await send(people(30, padding))
    t.equal(refused.status, 429)
    t.match(refused.headers.get('retry-after'), /^[1-9]\d?$/)
    t.match(await refused.json(), { type: 'throttled_error', code: 'throttled', attr: null })
  }
  t.equal((await send(people(3), OTHER_KEY)).status, 200)

  t.equal((await stored()).length, 93)
  t.equal(await system.metric('millrace_ingest_quota_refused_requests_total{limit="second"}'), before + 2)
  // Totals of a minute grow from message to message; the two requests may lie in two minutes.
  const byMinute = new Map<number, number>()
  const limited = await waitFor(async () => {
    for (const { projectId, reason, minute, count } of (await warnings()).flatMap(({ totals }) => totals)) {
      if (projectId === 1 && reason === 'rate_limited') byMinute.set(minute, count)
    }
    const sum = [...byMinute.values()].reduce((before, count) => before + count, 0)
    return sum >= 2 && sum
  })
  t.equal(limited, 2)
})

t.test('sampling: all or nothing of somebody, weights that add up, every drop counted and named', async (t) => {
  await limit({ eventsPerSecond: 1, burst: 60, beyond: 'sample', sampleRate: 0.25 })
  const before = await system.metric('millrace_ingest_events_dropped_total{reason="quota_sampled"}')
  t.equal((await send(people(200))).status, 200)
  t.equal((await stored()).length, 200)

  const small = people(200)
  t.equal((await send([...small, event('$identify', 'someone', { $anon_distinct_id: 'anon' })])).status, 200)
  t.equal((await send(people(200, 3000))).status, 200)

  const kept = await stored()
  const scrolls = kept.filter((each) => each.event === 'scroll')
  const persons = new Set(scrolls.map(({ distinct_id: id }) => id))
  t.ok(persons.size > 25 && persons.size < 80, `${persons.size} of 200`)
  t.equal(scrolls.length, persons.size * 2, 'the same people, whether a thread took the body or not')
  t.ok(scrolls.every(({ sample_weight: weight }) => weight === 4))
  t.same(kept.filter((each) => each.event === '$identify').map(({ sample_weight: weight }) => weight), [1], 'who is who is never sampled out')
  const dropped = 400 - scrolls.length
  t.equal(await system.metric('millrace_ingest_events_dropped_total{reason="quota_sampled"}'), before + dropped)
  const messages = await warnings()
  const counted = messages.flatMap(({ totals }) => totals).filter(({ reason }) => reason === 'quota_sampled')
  t.equal(Math.max(...counted.map(({ count }) => count)), dropped)
  const named = new Set(messages.flatMap(({ drops = [] }) => drops).map(({ uuid }) => uuid))
  t.ok(small.every(({ uuid, distinct_id: id }) => persons.has(id) !== named.has(uuid)), 'what was not stored has a receipt')
})

t.test('a rule that samples and the quota: the smaller share holds, and its weight', async (t) => {
  await sql`INSERT INTO event_rules (project_id, name, position, version) VALUES (1, 'half', 1, 1)`
  await sql`INSERT INTO event_rule_versions (rule_id, version, definition)
    SELECT id, 1, ${sql.json({ condition: { type: 'event', value: 'scroll' }, actions: [{ type: 'sample', rate: 0.5 }] })} FROM event_rules WHERE name = 'half'`
  await sql`UPDATE event_rules SET active_version = 1 WHERE name = 'half'`
  await limit({ eventsPerSecond: 1, burst: 60, beyond: 'sample', sampleRate: 0.25 })
  await send(people(300))
  await stored()

  await send(people(2000))
  const weights = (await stored()).map(({ sample_weight: weight }) => weight)
  await sql`UPDATE event_rules SET active_version = NULL WHERE name = 'half'`

  t.same(new Set(weights), new Set([4]))
  const scaled = weights.length * 4
  t.ok(scaled > 1700 && scaled < 2300, `${scaled} for 2,000`)
})

t.test('beyond the month: 429 that says when it ends, or a sample; a quota that is raised holds at once', async (t) => {
  await sql`INSERT INTO project_usage (project_id, month, events, counted_through)
    VALUES (1, date_trunc('month', now() AT TIME ZONE 'UTC'), 990, now())`
  await limit({ eventsPerMonth: 1000 })

  t.equal((await send(people(10))).status, 200)
  const refused = await send(people(1))
  t.equal(refused.status, 429)
  t.match(refused.headers.get('retry-after'), /^[1-6]?\d$/)
  t.match(await refused.json(), { type: 'throttled_error', code: 'quota_exceeded', attr: null, detail: /resets at \d{4}-\d\d-01T00:00:00/ })
  t.equal((await send(people(1), OTHER_KEY)).status, 200)
  await waitFor(async () => (await warnings()).some(({ totals }) => totals.some(({ reason }) => reason === 'quota_exceeded')))

  await limit({ eventsPerMonth: 1000, beyond: 'sample', sampleRate: 0.5 })
  t.equal((await send(people(100))).status, 200)
  const kept = await stored()
  t.ok(kept.length > 20 && kept.length < 80, `${kept.length} of 100`)
  t.ok(kept.every(({ sample_weight: weight }) => weight === 2))
  await limit({ eventsPerMonth: 2000 })
  t.equal((await send(people(1))).status, 200)
})

t.test('posthog-node tries again after 429, and loses nothing', async (t) => {
  await limit({ eventsPerSecond: 20, burst: 20 })
  const client = new PostHog(PROJECT_KEY, { host: system.url, flushAt: 30, fetchRetryCount: 20, fetchRetryDelay: 300 })
  const before = await system.metric('millrace_ingest_quota_refused_requests_total{limit="second"}')

  for (let index = 0; index < 120; index++) client.capture({ distinctId: `node ${index}`, event: 'sent' })
  await client.shutdown(60_000)

  const ids = (await stored()).map(({ distinct_id: id }) => id)
  t.same(ids.sort(), Array.from({ length: 120 }, (_, index) => `node ${index}`).sort())
  t.ok(await system.metric('millrace_ingest_quota_refused_requests_total{limit="second"}') > before, 'some were refused')
})

t.test('the limit of all projects answers 429 with Retry-After, for small and for large bodies', async (t) => {
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
  t.equal(await ingest.metric('millrace_ingest_quota_refused_requests_total{limit="second"}'), 2)
})
