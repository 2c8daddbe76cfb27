import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { storePublishedFrames } from '../../ingest/testing/read-published-events.ts'
import { storeWarnings } from '../../pipeline/accounting/store-warnings.ts'
import { shareOf } from '../../engines/rules/apply-rules.ts'
import { createLogger } from '../../platform/logger.ts'
import { findReceipt } from '../../api/events/receipts/find-receipt.ts'
import { TRACES_TABLE } from '../../schema/wire/event-traces.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'

const logger = createLogger({ component: 'test', level: 'silent' })

/** A distinct id outside a sample of one half. */
const LEFT_OUT = Array.from({ length: 100 }, (_, index) => `person ${index}`).find((id) => shareOf(id) >= 0.5)!

t.test('the receipt of an event that a rule or a schema kept out says so, with the rule or the reason', async (t) => {
  const [ingest, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
  const { client } = clickhouse
  const { connection, postgres: { sql } } = ingest
  const api = await createTestApi(t, { clickhouse: client, nats: createNatsOnDemand({ url: ingest.nats.url, logger }) })
  const drop = { condition: { type: 'property', key: 'host', value: 'localhost' }, actions: [{ type: 'drop' }] }
  const sample = { condition: { type: 'event', value: 'scroll' }, actions: [{ type: 'sample', rate: 0.5 }] }
  for (const [index, [name, definition]] of Object.entries({ 'no tests of ours': drop, 'half of the scrolling': sample }).entries()) {
    const [rule] = await sql<{ id: number }[]>`INSERT INTO event_rules (project_id, name, position) VALUES (1, ${name}, ${index}) RETURNING id`
    await sql`INSERT INTO event_rule_versions (rule_id, version, definition) VALUES (${rule!.id}, 1, ${sql.json(definition)})`
    await sql`UPDATE event_rules SET active_version = 1 WHERE id = ${rule!.id}`
  }
  for (const [event, mode] of [['rejected', 'reject'], ['quarantined', 'quarantine']] as const) {
    const [schema] = await sql<{ id: number }[]>`INSERT INTO event_schemas (project_id, event, mode) VALUES (1, ${event}, ${mode}) RETURNING id`
    await sql`INSERT INTO event_schema_versions (schema_id, version, schema) VALUES (${schema!.id}, 1, ${sql.json({ required: ['plan'] })})`
    await sql`UPDATE event_schemas SET active_version = 1 WHERE id = ${schema!.id}`
  }
  // Keys come with rules and schemas, in one reading.
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES ('phc_later', 1, 'project')`
  await waitFor(async () => (await ingest.post('/batch/', { api_key: 'phc_later', batch: [{ event: 'probe', distinct_id: 'd' }] })).status === 200)
  const [dropped, sampled, rejected] = [randomUUID(), randomUUID(), randomUUID()]
  const [quarantined, stored] = [randomUUID(), randomUUID()]
  const filler = 'x'.repeat(300_000)
  const large = randomUUID()
  const batch = [
    { event: 'visit', uuid: dropped.toUpperCase(), properties: { host: 'localhost' } }, { event: 'scroll', uuid: sampled },
    { event: 'rejected', uuid: rejected }, { event: 'quarantined', uuid: quarantined }, { event: 'visit', uuid: stored, properties: { host: 'shop' } }
  ].map((event) => ({ distinct_id: LEFT_OUT, ...event }))

  t.equal((await ingest.post('/batch/', { api_key: PROJECT_KEY, batch })).status, 200)
  // A large body takes another way through ingest.
  const body = { api_key: PROJECT_KEY, batch: [{ event: 'visit', distinct_id: 'd', uuid: large, properties: { host: 'localhost', filler } }] }
  t.equal((await ingest.post('/batch/', body)).status, 200)
  await storePublishedFrames(connection, clickhouse)
  await waitFor(async () => {
    await storeWarnings({ connection, clickhouse: client, logger })
    const rows = await (await client.query({ query: `SELECT uuid FROM ${TRACES_TABLE} WHERE kind = 'dropped'`, format: 'JSONEachRow' })).json()
    return rows.length === 4
  })

  const receipt = async (uuid: string): Promise<object> => await findReceipt({ projectId: 1, uuid }, {
    clickhouse: client, nats: async (ask) => await ask(connection), sql: () => sql, now: Date.now
  })
  const expected = {
    [dropped]: 'rule_dropped: no tests of ours', [sampled]: 'rule_sampled: half of the scrolling', [rejected]: 'schema_rejected', [large]: 'rule_dropped: no tests of ours'
  }
  for (const [uuid, reason] of Object.entries(expected)) {
    t.match(await receipt(uuid), { fate: 'dropped', dropped: { reason, received_by: /^[0-9a-f]{12}$/, received_at: String } })
    t.match(await api.call('GET', `~/events/${uuid}/receipt`), { body: { uuid, fate: 'dropped', dropped: { reason }, stored: null, dead_letter: null } })
  }
  t.match(await receipt(quarantined), { fate: 'dead_letter', dead_letter: { stage: 'schema', reason: 'not_met', error: /plan/ } })
  t.match(await receipt(stored), { fate: 'stored' })

  // Samples of warnings are kept for longer than traces.
  await client.command({ query: `TRUNCATE TABLE ${TRACES_TABLE}` })
  for (const [uuid, reason] of Object.entries(expected)) t.match(await receipt(uuid), { fate: 'dropped', dropped: { reason } })
})
