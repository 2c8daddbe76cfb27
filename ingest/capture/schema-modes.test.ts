import { randomUUID } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import type { DeadLetter } from '../../schema/wire/dead-letter-message.ts'
import { readDeadLetters } from '../../test/support/read-letters.ts'
import { replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { DEAD_LETTER_STREAM, WARNINGS_STREAM } from '../../schema/wire/streams.ts'
import { sourceOf, type WarningsMessage, type WarningTotal } from '../../schema/wire/ingestion-warnings.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import {
  discardPublished, type StoredEvent, takeMessages, takePersonsUpdates, takePublishedEvents
} from '../testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'

const [system, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
const { connection, postgres: { sql } } = system
const OTHER_KEY = 'phc_other_project'
await sql`INSERT INTO projects (id, name) VALUES (2, 'without schemas')`
await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${OTHER_KEY}, 2, 'project')`

const SCHEMA = { required: ['plan'], properties: { plan: { enum: ['free', 'pro'] } } }

/** Stores a version and activates it; resolves when ingest has it. */
async function activate (event: string, mode: string, schema: object = SCHEMA): Promise<void> {
  await sql.begin(async (tx) => {
    const [row] = await tx<{ id: number, version: number }[]>`
      INSERT INTO event_schemas (project_id, event, mode) VALUES (1, ${event}, ${mode})
      ON CONFLICT (project_id, event) DO UPDATE SET version = event_schemas.version + 1, mode = EXCLUDED.mode
      RETURNING id, version`
    await tx`INSERT INTO event_schema_versions (schema_id, version, schema)
      VALUES (${row!.id}, ${row!.version}, ${tx.json(schema)})`
    await tx`UPDATE event_schemas SET active_version = version WHERE id = ${row!.id}`
  })
}

async function send (events: object[], key = PROJECT_KEY): Promise<void> {
  const response = await system.post('/batch/', { api_key: key, batch: events })
  t.equal(response.status, 200)
  await response.text()
}

interface Sent { event: string, uuid: string, distinct_id: string, timestamp: string, properties: object }

function event (name: string, properties: object): Sent {
  return { event: name, uuid: randomUUID(), distinct_id: 'd', timestamp: new Date().toISOString(), properties }
}

async function warnings (): Promise<Record<string, number>> {
  const messages = (await takeMessages(connection, WARNINGS_STREAM)).map((message) => message.json<WarningsMessage>())
  const highest: Record<string, number> = {}
  for (const { reason, count } of messages.flatMap(({ totals }) => totals)) {
    highest[reason] = Math.max(highest[reason] ?? 0, count)
  }
  return highest
}

async function discardLetters (): Promise<void> {
  await (await jetstreamManager(connection)).streams.purge(DEAD_LETTER_STREAM)
}

/** Waits until ingest enforces a schema: an event that does not meet it is marked. */
async function waitUntilEnforced (name: string, version: number, properties: object = {}): Promise<void> {
  await waitFor(async () => {
    await send([event(name, properties)])
    const [stored] = await takePublishedEvents(connection, clickhouse)
    const [letter] = await readDeadLetters(connection)
    return stored?.schema_version === -version || letter?.error.startsWith(`version ${version} `) === true
  })
  await discardLetters()
  await discardPublished(connection)
  await warnings()
}

function versions (events: readonly StoredEvent[]): unknown[] {
  return events.map(({ event, schema_version: version }) => [event, version])
    .sort((one, other) => String(one) < String(other) ? -1 : 1)
}

/** Stored fields of an event, without those that differ each time. */
function content (stored: StoredEvent): unknown {
  const { event, uuid, properties, property_types: types, timestamp, distinct_id: id, schema_version: version } = stored
  return { event, uuid, properties, types, timestamp, id, version }
}

t.test('what does not meet a schema is counted by schema, whatever becomes of it, before the answer', async (t) => {
  const modes = { observe: 'schema_not_met', quarantine: 'schema_quarantined', reject: 'schema_rejected' }
  for (const mode of Object.keys(modes)) {
    await activate(`counted ${mode}`, 'observe')
    await waitUntilEnforced(`counted ${mode}`, 1)
    await activate(`counted ${mode}`, mode)
  }
  await activate('last', 'observe')
  await waitUntilEnforced('last', 1)
  const ids = new Map((await sql<{ id: number, event: string }[]>`SELECT id, event FROM event_schemas`).map(({ id, event }) => [event, id]))
  const padding = 'x'.repeat(200_000)

  const sendFailing = async (extra: object): Promise<void> =>
    await send(Object.keys(modes).flatMap((mode) => [event(`counted ${mode}`, { plan: 'pro' }), event(`counted ${mode}`, { plan: 'gold', ...extra })]))
  const totals = async (): Promise<{ source: string, total: WarningTotal }[]> =>
    (await takeMessages(connection, WARNINGS_STREAM)).map((message) => message.json<WarningsMessage>())
      .flatMap(({ source, totals }) => totals.map((total) => ({ source: sourceOf(source, total), total })))
  const sumOf = (rows: readonly { total: WarningTotal }[]): number =>
    [...Map.groupBy(rows, ({ total }) => total.minute).values()]
      .reduce((sum, each) => sum + Math.max(...each.map(({ total }) => total.count)), 0)

  // Totals of the minute go on from what was sent until now.
  await sendFailing({})
  const before = await totals()
  // A small body, and one that a thread takes.
  for (const extra of [{}, { padding }]) await sendFailing(extra)
  const after = [...before, ...await totals()]

  for (const [mode, reason] of Object.entries(modes)) {
    const isMeant = ({ source, total }: { source: string, total: WarningTotal }): boolean =>
      total.reason === reason && source.endsWith(`/schema/${ids.get(`counted ${mode}`)}`)
    t.equal(sumOf(after.filter(isMeant)) - sumOf(before.filter(isMeant)), 2, reason)
    t.match(after.filter(isMeant).flatMap(({ total }) => total.samples).at(-1), { event: `counted ${mode}`, distinctId: 'd', value: /plan/ })
  }
  await discardPublished(connection)
  await discardLetters()
})

t.test('observe: all are stored, those that do not meet the schema are marked and counted', async (t) => {
  await activate('observed', 'observe')
  await waitUntilEnforced('observed', 1)

  await send([event('observed', { plan: 'pro' }), event('observed', { plan: 'gold' }), event('observed', {}), event('free', { plan: 'gold' })])

  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['free', 0], ['observed', -1], ['observed', -1], ['observed', 1]])
  t.match(await warnings(), { schema_not_met: Number })
  t.same(await readDeadLetters(connection), [])
})

t.test('reject: dropped, counted, the neighbours are stored', async (t) => {
  await activate('rejected', 'observe')
  await waitUntilEnforced('rejected', 1)
  await activate('rejected', 'reject', { ...SCHEMA, required: ['plan', 'seats'] })
  await waitFor(async () => {
    await send([event('rejected', { plan: 'pro' })])
    return (await takePublishedEvents(connection, clickhouse)).length === 0
  })
  await warnings()
  await discardPublished(connection)
  const before = await system.metric('millrace_ingest_events_dropped_total{reason="schema_rejected"}')

  await send([event('rejected', { plan: 'pro', seats: 1 }), { ...event('rejected', { plan: 'gold', seats: 2 }), $set: { a: 1 } }])

  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['rejected', 2]])
  t.equal(await system.metric('millrace_ingest_events_dropped_total{reason="schema_rejected"}'), before + 1)
  t.same(await takePersonsUpdates(connection), [], 'nothing of it is stored')
  t.match(await warnings(), { schema_rejected: Number })
})

t.test('quarantine: a dead letter with the failing path and value; replayed it is stored as if there were no schema', async (t) => {
  await activate('quarantined', 'quarantine')
  await waitUntilEnforced('quarantined', 1)
  const events = [
    event('quarantined', { plan: 'pro', n: 1 }), { ...event('quarantined', { plan: 'gold\r\n', list: [1] }), $set: { name: 'ä' } },
    event('quarantined', { plan: 'übel' }), event('other', { plan: 'gold' })
  ]

  await send(events)

  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['other', 0], ['quarantined', 1]])
  t.match(await takePersonsUpdates(connection), [{ set: { name: 'ä' } }], 'persons follow the event, whatever becomes of it')
  const letters = await readDeadLetters(connection, { project: 1, stage: 'schema' })
  t.match(letters, [
    { reason: 'not_met', event: 'quarantined', uuid: events[1]!.uuid, errorCode: 'enum /plan', rows: 1, error: 'version 1 of the schema is not met: /plan enum "gold\\r\\n"' },
    { event: 'quarantined', uuid: events[2]!.uuid, error: 'version 1 of the schema is not met: /plan enum "übel"' }
  ] satisfies Partial<DeadLetter>[])
  t.match(letters[0], { content: [{ event: 'quarantined', distinct_id: 'd' }] })

  await send(events)
  t.equal((await readDeadLetters(connection)).length, 2, 'a request that is repeated leaves one letter')
  await discardPublished(connection)

  t.match(await replayDeadLetters(connection, { project: 1 }), { replayed: 2 })
  const replayed = await takePublishedEvents(connection, clickhouse)
  await send(events.slice(1, 3), OTHER_KEY)
  const without = await takePublishedEvents(connection, clickhouse)
  t.same(replayed.map(content), without.map(content))
})

t.test('an event for whose letter there is no room is stored, and so is what came with it', async (t) => {
  const { streams } = await jetstreamManager(connection)
  await streams.update(DEAD_LETTER_STREAM, { max_msgs: 1 })
  t.teardown(async () => await streams.update(DEAD_LETTER_STREAM, { max_msgs: -1 }))
  await send([event('quarantined', { plan: 'gold' })])
  await warnings()
  const stored = await system.metric('millrace_ingest_events_stored_without_dead_letter_total')

  await send([event('quarantined', { plan: 'gold' }), event('quarantined', { plan: 'pro' })])

  t.equal(await system.metric('millrace_ingest_spool_bytes'), 0)
  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['quarantined', 0], ['quarantined', 1]])
  t.equal((await readDeadLetters(connection)).length, 1)
  t.equal(await system.metric('millrace_ingest_events_stored_without_dead_letter_total') - stored, 1)
  await waitFor(async () => (await warnings()).schema_not_met !== undefined)
  await discardLetters()
})

t.test('a large body goes the same ways', async (t) => {
  await activate('large', 'quarantine')
  await waitUntilEnforced('large', 1)
  const text = 'x'.repeat(150_000)
  const body = (): object[] => [
    event('large', { plan: 'pro', text }), event('large', { plan: 'gold', text }), event('observed', { plan: 'gold', text }),
    event('rejected', { plan: 'gold' })
  ]

  await send(body())
  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['large', 1], ['observed', -1]])
  t.match(await readDeadLetters(connection), [{ event: 'large', error: /plan enum "gold"$/ }])
  await discardLetters()

  await activate('large', 'observe', { properties: { plan: { const: 'gold' } } })
  await waitUntilEnforced('large', 2, { plan: 'x' })
  await send(body())
  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['large', -2], ['large', 2], ['observed', -1]])
})

t.test('values stored with a replacement character are checked in their stored form', async (t) => {
  await activate('odd', 'observe', { properties: { a: { const: '\ufffd' }, n: { type: 'string' } } })
  await waitUntilEnforced('odd', 1, { a: 'x' })

  const batch = '[{"event":"odd","distinct_id":"d","properties":{"a":"\\ud800"}},' +
    '{"event":"odd","distinct_id":"d","properties":{"n":123456789012345678901234567890}}]'
  const response = await system.post('/batch/', `{"api_key":"${PROJECT_KEY}","batch":${batch}}`)

  t.equal(response.status, 200)
  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['odd', 1], ['odd', 1]])
})

t.test('a schema that does not compile changes nothing, and disabling one ends the checks', async (t) => {
  await activate('broken', 'quarantine', { unknown: true })
  await activate('observed', 'reject')
  // The reading that fails is over when the key that was made after it is known.
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES ('phc_new', 1, 'project')`
  await waitFor(async () => (await system.post('/batch/', { api_key: 'phc_new', batch: [event('x', {})] })).status === 200)
  await discardPublished(connection)
  await send([event('observed', { plan: 'gold' }), event('broken', {})])
  t.same(versions(await takePublishedEvents(connection, clickhouse)), [['broken', 0], ['observed', -1]])

  await sql`UPDATE event_schemas SET active_version = NULL`
  await waitFor(async () => {
    await send([event('observed', { plan: 'gold' })])
    return (await takePublishedEvents(connection, clickhouse))[0]?.schema_version === 0
  })
  t.same(await readDeadLetters(connection), [])
})
