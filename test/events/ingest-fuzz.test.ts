import { createHash } from 'node:crypto'
import http from 'node:http'
import t, { type Test } from 'tap'
import { DROP_REASONS } from '../../ingest/capture/ingest-counts.ts'
import { storePublishedFrames } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest, TEAM_KEY, type TestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { createChoices } from './fuzz-events.ts'
import { buildRequest, type FuzzKeys, type FuzzRequest } from './fuzz-request.ts'

/** For a campaign: `MILLRACE_TEST_FUZZ_REQUESTS=20000 MILLRACE_TEST_FUZZ_SEED=1`. */
const REQUESTS = Number(process.env.MILLRACE_TEST_FUZZ_REQUESTS ?? 8000)
const SEED = Number(process.env.MILLRACE_TEST_FUZZ_SEED ?? 20_261_121)
/** Each answer waits for a message to be stored; so many wait together. */
const CONNECTIONS = 64

const KEYS: FuzzKeys = { project: PROJECT_KEY, team: TEAM_KEY, personal: 'phx_fuzz', damaged: 'phc_damaged' }

t.test(`${REQUESTS} odd bodies: no 5xx, and every event is stored or counted as dropped`, async (t) => {
  const ingest = await startTestIngest(t)
  const clickhouse = await createTestClickHouse(t)
  await createKeys(ingest)
  const storable = new Set<number>()
  let sent = 0

  await sendAll(t, ingest.url, (request) => {
    sent += request.events.length
    for (const { ordinal, isStorable } of request.events) if (isStorable) storable.add(ordinal)
  })

  await storePublishedFrames(ingest.connection, clickhouse)
  const predicted = await clickhouse.client.query({
    query: "SELECT extract(properties, '\"n\":(\\\\d+)') AS n, count() AS copies FROM events WHERE project_id = 1 GROUP BY n",
    format: 'JSONEachRow'
  })
  const rows = await predicted.json<{ n: string, copies: string | number }>()
  const stored = new Set(rows.map(({ n }) => Number(n)))
  t.same([...storable.difference(stored)], [], 'nothing storable is missing')
  t.same([...stored.difference(storable)], [], 'nothing else is stored')
  t.same(rows.filter(({ copies }) => Number(copies) !== 1), [], 'nothing is stored twice')

  const [{ count = '0' } = {}] = await (await clickhouse.client.query({
    query: 'SELECT count() AS count FROM events', format: 'JSONEachRow'
  })).json<{ count: string }>()
  const dropped = await Promise.all(DROP_REASONS.map(async (reason) =>
    await ingest.metric(`millrace_ingest_events_dropped_total{reason="${reason}"}`)))
  const droppedInAll = dropped.reduce((sum, number) => sum + number, 0)
  const received = await ingest.metric('millrace_ingest_events_received_total')
  t.equal(Number(count) + droppedInAll, received, 'received = stored + dropped')
  t.ok(received >= sent && sent > REQUESTS)
  t.equal(dropped[DROP_REASONS.indexOf('not_storable')], 0, 'no event met a bug')
  t.comment({ sent, stored: count, dropped: Object.fromEntries(DROP_REASONS.map((reason, i) => [reason, dropped[i]])) })
})

/** Sends the requests over some connections and compares each answer; `onAccepted` sees those answered with 200. */
async function sendAll (t: Test, url: string, onAccepted: (request: FuzzRequest) => void): Promise<void> {
  const choices = createChoices(SEED)
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  t.teardown(() => agent.destroy())
  let next = 0
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (next < REQUESTS) {
      const request = buildRequest(choices, next++, KEYS)
      const { status, text } = await post(agent, url, request)
      const { code } = JSON.parse(text) as { code?: string }
      const isExpected = request.expected === null
        ? status < 500
        : status === request.expected.status && code === request.expected.code
      if (!isExpected) t.fail(`${status} ${text} for ${request.path} ${request.body.toString().slice(0, 500)}`)
      if (status === 200) onAccepted(request)
    }
  }))
}

async function post (
  agent: http.Agent, url: string, { path, body, headers }: FuzzRequest
): Promise<{ status: number, text: string }> {
  return await new Promise((resolve, reject) => {
    const request = http.request(url + path, {
      method: 'POST', agent, headers: { ...headers, 'content-length': body.length }
    }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (chunk: string) => { text += chunk })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
    })
    request.on('error', reject)
    request.end(body)
  })
}

async function createKeys ({ postgres: { sql } }: TestIngest): Promise<void> {
  await sql`INSERT INTO projects (id, name) VALUES (2, 'damaged')`
  await sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${KEYS.damaged}, 2)`
  await sql`INSERT INTO users (id, email) VALUES (1, 'a@example.com')`
  const secureValue = `sha256$${createHash('sha256').update(KEYS.personal).digest('hex')}`
  await sql`INSERT INTO personal_api_keys (user_id, secure_value, mask_value) VALUES (1, ${secureValue}, '')`
}
