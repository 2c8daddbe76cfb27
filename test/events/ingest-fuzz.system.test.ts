import { createHash } from 'node:crypto'
import http from 'node:http'
import t, { type Test } from 'tap'
import { DROP_REASONS, type DropReason } from '../../ingest/event.ts'
import { storePublishedFrames } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest, TEAM_KEY, type TestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { countDeadLetters } from '../../api/events/dead-letters/list-dead-letters.ts'
import { replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { compileRules } from '../../ingest/enforcement/active-rules.ts'
import { compileDefinitions } from '../../ingest/enforcement/active-schemas.ts'
import type { SchemaMode } from '../../schema/schema-modes.ts'
import type { EnforcedProject } from '../../ingest/enforcement/read-projects.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createIngest } from '../prediction/ingest-verdict.ts'
import { createTestClickHouse, type TestClickHouse } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'
import { createChoices } from './fuzz-events.ts'
import { buildRequest, type FuzzKeys, type FuzzRequest } from './fuzz-request.ts'

/** Schemas and rules for the odd events of `fuzz-events.ts`: each asks something that part of them meet. */
const VALUES = {
  properties: {
    a: { type: ['string', 'number', 'boolean', 'null'], maxLength: 100 },
    $browser: { not: { type: 'object' } },
    created_at: { anyOf: [{ type: 'number', minimum: 0 }, { format: 'date' }, { type: 'array', items: { type: 'number' } }] },
    constructor: { type: ['string', 'null'] },
    $set: { additionalProperties: { pattern: '^[a-z]*$', maxItems: 2 } }
  },
  patternProperties: { '^\\d+$': { type: 'string' }, 'k{3}': false }
}

const NAMES = { maxProperties: 8, required: ['n'], dependentRequired: { $group_type: ['$group_key'] }, properties: { toString: false } }

const SCHEMAS: readonly { event: string, mode: SchemaMode, schema: object }[] = [
  { event: '$pageview', mode: 'observe', schema: VALUES },
  { event: 'order paid', mode: 'quarantine', schema: VALUES },
  { event: '$identify', mode: 'quarantine', schema: NAMES },
  { event: '\ufffd', mode: 'quarantine', schema: VALUES },
  { event: '$exception', mode: 'reject', schema: VALUES },
  { event: 'ü'.repeat(200), mode: 'reject', schema: NAMES },
  { event: 'nul\ufffdname', mode: 'observe', schema: NAMES }
]

const event = (...names: string[]): object => ({ type: 'event', value: names })
const property = (key: string, operator: string, value?: unknown): object =>
  ({ type: 'property', key, operator, ...value !== undefined && { value } })

const RULES: readonly object[] = [
  { condition: { type: 'AND', values: [event('$groupidentify', '$$plugin_metrics', '$identify'), property('a', 'is_set')] }, actions: [{ type: 'drop' }] },
  { condition: { type: 'AND', values: [event('$pageview'), property('$browser', 'not_regex', '^[a-z]+$')] }, actions: [{ type: 'sample', rate: 0.5 }] },
  { condition: property('created_at', 'gt', '0'), actions: [{ type: 'hash_property', property: '$current_url' }, { type: 'truncate_ip' }] },
  { condition: property('17', 'icontains', '0'), actions: [{ type: 'remove_property', property: 'a' }, { type: 'remove_property', property: 'constructor' }] },
  {
    condition: { type: 'AND', values: [{ type: 'ip', value: '127.0.0.0/8' }, property('utm_source', 'is_set')] },
    actions: [{ type: 'set_property', property: '$browser', value: ['of a rule', { n: null }] }]
  }
]

/** Project 1 as ingest has it when it has read what `storeFuzzContract` stores. */
function compileFuzzProject (): EnforcedProject {
  const rules = RULES.map((rule, id) => ({ id, name: `rule ${id}`, version: 1, text: JSON.stringify(rule) }))
  return {
    id: 1,
    anonymizeIps: false,
    rules: compileRules({ secret: new Uint8Array(32), rules }, 1),
    schemas: compileDefinitions(SCHEMAS.map(({ event, mode, schema }, id) =>
      ({ id, event, mode, version: 1, text: JSON.stringify(schema) })))
  }
}

/** Stores and activates them for project 1. */
async function storeFuzzContract (sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    for (const { event, mode, schema } of SCHEMAS) {
      const [row] = await tx<{ id: number }[]>`INSERT INTO event_schemas (project_id, event, mode) VALUES (1, ${event}, ${mode}) RETURNING id`
      await tx`INSERT INTO event_schema_versions (schema_id, version, schema) VALUES (${row!.id}, 1, ${tx.json(schema)})`
      await tx`UPDATE event_schemas SET active_version = 1 WHERE id = ${row!.id}`
    }
    for (const [position, rule] of RULES.entries()) {
      const [row] = await tx<{ id: number }[]>`INSERT INTO event_rules (project_id, name, position) VALUES (1, ${`rule ${position}`}, ${position}) RETURNING id`
      await tx`INSERT INTO event_rule_versions (rule_id, version, definition) VALUES (${row!.id}, 1, ${tx.json(rule)})`
      await tx`UPDATE event_rules SET active_version = 1 WHERE id = ${row!.id}`
    }
  })
}

/** More in a long run. For a campaign: `MILLRACE_TEST_FUZZ_REQUESTS=20000 MILLRACE_TEST_FUZZ_SEED=1`. */
const USUAL_REQUESTS = process.env.MILLRACE_TEST_LONG === undefined ? 2000 : 8000
const REQUESTS = Number(process.env.MILLRACE_TEST_FUZZ_REQUESTS ?? USUAL_REQUESTS)
const SEED = Number(process.env.MILLRACE_TEST_FUZZ_SEED ?? 20_261_121)
/** Number of concurrent requests: each answer waits for a message to be stored. */
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
  const rows = await readStored(clickhouse)
  const stored = new Set(rows.keys())
  t.same([...storable.difference(stored)], [], 'nothing storable is missing')
  t.same([...stored.difference(storable)], [], 'nothing else is stored')
  t.same([...rows].filter(([, copies]) => copies !== 1), [], 'nothing is stored twice')

  const count = await countStored(clickhouse)
  const dropped = await readDropped(ingest)
  const droppedInAll = Object.values(dropped).reduce((sum, number) => sum + number, 0)
  const received = await ingest.metric('millrace_ingest_events_received_total')
  t.equal(count + droppedInAll, received, 'received = stored + dropped')
  t.ok(received >= sent && sent > REQUESTS)
  t.equal(dropped.not_storable, 0, 'no event met a bug')
  t.comment({ sent, stored: count, dropped })
})

t.test(`${REQUESTS / 2} odd bodies against schemas of every mode and rules: each event has the fate that they say`, async (t) => {
  const ingest = await startTestIngest(t)
  const clickhouse = await createTestClickHouse(t)
  const project = compileFuzzProject()
  await storeFuzzContract(ingest.postgres.sql)
  await createKeys(ingest)
  await waitFor(async () => (await ingest.post('/batch/', { api_key: KEYS.damaged, event: 'probe', distinct_id: 'd' })).status === 200)
  const verdictOf = createIngest()
  const fates = { stored: new Set<number>(), quarantined: new Set<number>() }
  const drops = new Map<DropReason, number>()

  await sendAll(t, ingest.url, (request) => {
    // What becomes of a body that was damaged nobody can say.
    if (request.expected === null) return
    for (const { ordinal, json } of request.events) {
      // An object that carries the key of an array is no event of the campaign; neither has a name.
      const { reason, quarantined } = verdictOf({ ordinal, name: '', body: json === '' ? '{}' : json, ip: '127.0.0.1' }, project)
      if (reason !== null) drops.set(reason, (drops.get(reason) ?? 0) + 1)
      else fates[quarantined === null ? 'stored' : 'quarantined'].add(ordinal)
    }
  }, REQUESTS / 2)

  await storePublishedFrames(ingest.connection, clickhouse)
  const stored = new Set((await readStored(clickhouse)).keys())
  t.same([...fates.stored.difference(stored)], [], 'nothing is missing that meets its schema, or is only observed')
  t.same([...stored.difference(fates.stored)], [], 'nothing else is stored')
  const dropped = await readDropped(ingest)
  for (const reason of ['rule_dropped', 'rule_sampled', 'schema_rejected'] as const) {
    t.equal(dropped[reason], drops.get(reason), `${reason}: each is counted`)
    t.ok(dropped[reason]! > REQUESTS / 50, `${reason}: ${dropped[reason]}`)
  }
  t.equal(dropped.not_storable, 0, 'no event met a bug')
  const letters = await countDeadLetters(ingest.connection)
  t.equal(letters, fates.quarantined.size)
  t.ok(letters > REQUESTS / 50, `${letters} are quarantined`)
  const before = await countStored(clickhouse)
  const droppedInAll = Object.values(dropped).reduce((sum, number) => sum + number, 0)
  t.equal(before + letters + droppedInAll, await ingest.metric('millrace_ingest_events_received_total'), 'received = stored + quarantined + dropped')

  t.match(await replayDeadLetters(ingest.connection, { stage: 'schema' }), { replayed: letters, skipped: 0 })
  await storePublishedFrames(ingest.connection, clickhouse)
  const all = await readStored(clickhouse)
  t.same([...fates.quarantined.difference(new Set(all.keys()))], [], 'every quarantined event is stored by a replay')
  t.same([...all].filter(([, copies]) => copies !== 1), [], 'nothing is stored twice')
  t.comment({ stored: before, letters, dropped })
})

/** Events of project 1 by ordinal, and how often each is stored. */
async function readStored ({ client }: TestClickHouse): Promise<Map<number, number>> {
  const result = await client.query({
    query: "SELECT extract(properties, '\"n\":(\\\\d+)') AS n, count() AS copies FROM events WHERE project_id = 1 GROUP BY n",
    format: 'JSONEachRow'
  })
  const rows = await result.json<{ n: string, copies: string | number }>()
  return new Map(rows.map(({ n, copies }) => [Number(n), Number(copies)]))
}

async function countStored ({ client }: TestClickHouse): Promise<number> {
  const result = await client.query({ query: 'SELECT count() AS count FROM events', format: 'JSONEachRow' })
  const [{ count = '0' } = {}] = await result.json<{ count: string }>()
  return Number(count)
}

async function readDropped (ingest: TestIngest): Promise<Partial<Record<DropReason, number>>> {
  return Object.fromEntries(await Promise.all(DROP_REASONS.map(async (reason) =>
    [reason, await ingest.metric(`millrace_ingest_events_dropped_total{reason="${reason}"}`)] as const)))
}

/** Sends the requests over some connections and compares each answer; `onAccepted` sees those answered with 200. */
async function sendAll (
  t: Test, url: string, onAccepted: (request: FuzzRequest) => void, requests = REQUESTS
): Promise<void> {
  const choices = createChoices(SEED)
  const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  t.teardown(() => agent.destroy())
  let next = 0
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (next < requests) {
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
