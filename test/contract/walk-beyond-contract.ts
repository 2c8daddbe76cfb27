import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import type { Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { type ContractSystem, DATE_TIME, insertEvent, insertProperty } from './contract-client.ts'

/** What the product has beyond the contract: feature flags, dead letters, warnings, persons. */
export async function walkBeyondContract (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('Beyond the contract: feature flags, dead letters, persons', async (t) => {
    const filters = { groups: [{ properties: [], rollout_percentage: 100 }], payloads: { true: '{"a": 1}' } }
    const { status, body: { id } } = await client.call(t, 'POST', '~/feature_flags/', { key: 'beyond', filters })
    t.equal(status, 201)
    t.match(await client.call(t, 'GET', '~/feature_flags/?search=beyond'), { status: 200, body: { count: 1 } })
    t.match(await client.call(t, 'GET', `~/feature_flags/${id}/`), { status: 200, body: { key: 'beyond' } })
    t.match(await client.call(t, 'PATCH', `~/feature_flags/${id}/`, { name: 'n' }), { status: 200, body: { version: 2 } })
    t.match(await client.call(t, 'GET', `~/feature_flags/${id}/activity/`), {
      status: 200, body: { count: 2, results: [{ activity: 'updated', version: 2 }, { activity: 'created' }] }
    })
    t.match(await client.call(t, 'PATCH', `~/feature_flags/${id}/`, { name: 'late', version: 1 }), { status: 409, body: { code: 'conflict', attr: 'version' } })
    t.match(await client.call(t, 'GET', '~/feature_flags/beyond/remote_config/'), { status: 200, body: '{"a": 1}' })
    t.match(await client.call(t, 'POST', '~/feature_flags/test/', { distinct_id: 'me', flag_keys: ['beyond'] }), {
      status: 200, body: { results: [{ key: 'beyond', value: true, reason: { code: 'condition_match' } }] }
    })
    t.match(await client.call(t, 'DELETE', `~/feature_flags/${id}/`), { status: 204 })

    const { body: rule } = await client.call(t, 'POST', '~/rules/', { name: 'beyond', actions: [{ type: 'drop' }] })
    t.match(await client.call(t, 'GET', '~/rules/'), { status: 200, body: { results: [{ id: rule.id }] } })
    t.match(await client.call(t, 'GET', '~/rules/counts/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', `~/rules/${rule.id}/`), { status: 200, body: { version: 1, active_version: null } })
    t.match(await client.call(t, 'GET', `~/rules/${rule.id}/versions/`), { status: 200, body: { results: [{ version: 1 }] } })
    t.match(await client.call(t, 'PATCH', `~/rules/${rule.id}/`, { position: 3 }), { status: 200, body: { position: 3 } })
    t.match(await client.call(t, 'POST', `~/rules/${rule.id}/check/`, {}), { status: 200, body: { complete: true } })
    t.match(await client.call(t, 'DELETE', `~/rules/${rule.id}/`), { status: 204 })

    const { body: schema } = await client.call(t, 'POST', '~/event_schemas/', { event: 'beyond', schema: { required: ['plan'] } })
    t.match(await client.call(t, 'GET', '~/event_schemas/'), { status: 200, body: { results: [{ id: schema.id }] } })
    t.match(await client.call(t, 'GET', '~/event_schemas/counts/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', `~/event_schemas/${schema.id}/`), { status: 200, body: { version: 1, active_version: null } })
    t.match(await client.call(t, 'GET', `~/event_schemas/${schema.id}/versions/`), { status: 200, body: { results: [{ version: 1 }] } })
    t.match(await client.call(t, 'PATCH', `~/event_schemas/${schema.id}/`, { owner: 'o' }), { status: 200, body: { owner: 'o' } })
    t.match(await client.call(t, 'POST', `~/event_schemas/${schema.id}/check/`, {}), { status: 200, body: { complete: true } })
    t.match(await client.call(t, 'POST', '~/event_schemas/infer/', { event: 'beyond' }), { status: 200, body: { events: Number } })
    t.match(await client.call(t, 'DELETE', `~/event_schemas/${schema.id}/`), { status: 204 })

    await plantDeadLetter(stack)
    const [{ id: letter }] = (await client.call(t, 'GET', '~/dead_letters/')).body.results
    for (const root of ['~', '/api']) {
      t.match(await client.call(t, 'GET', `${root}/dead_letters/`), { status: 200, body: { results: [{ id: letter }] } })
      t.match(await client.call(t, 'GET', `${root}/dead_letters/groups/`), { status: 200, body: { count: 1, results: [{ count: 1 }] } })
      t.match(await client.call(t, 'GET', `${root}/dead_letters/${letter}/`), { status: 200, body: { error: 'planted' } })
      t.match(await client.call(t, 'POST', `${root}/dead_letters/replay/`, { dry_run: true }), { status: 200, body: { matched: 1 } })
      t.match(await client.call(t, 'POST', `${root}/dead_letters/purge/`, { dry_run: true }), { status: 200, body: { matched: 1 } })
    }
    // Before anything is replayed: from then on there are events.
    t.match(await client.call(t, 'GET', '~/events/arrivals/'), { status: 200, body: { first_received_at: null } })
    t.match(await client.call(t, 'POST', `~/dead_letters/${letter}/replay/`), { status: 200, body: { replayed: 1 } })
    for (const root of ['~', '/api']) {
      await plantDeadLetter(stack)
      const [{ id: other }] = (await client.call(t, 'GET', `${root}/dead_letters/`)).body.results
      t.match(await client.call(t, 'DELETE', `${root}/dead_letters/${other}/`), { status: 204 })
    }
    await plantDeadLetter(stack)
    const [{ id: last }] = (await client.call(t, 'GET', '/api/dead_letters/')).body.results
    t.match(await client.call(t, 'POST', `/api/dead_letters/${last}/replay/`), { status: 200, body: { replayed: 1 } })

    t.match(await client.call(t, 'GET', `~/events/${randomUUID()}/receipt/`), { status: 200, body: { fate: 'unknown', may_be_in: [] } })
    t.match(await client.call(t, 'GET', `~/events/${randomUUID()}/`), { status: 200, body: { stored: null } })
    await client.open(t, 'GET', '~/events/live/')
    t.match(await client.call(t, 'GET', '~/cohorts/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', '~/events/?limit=1'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/groups/types/'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/groups/?group_type_index=0'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/persons/seen/'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/events/digests/?from=2020-01-01&to=2020-01-02'), { status: 200, body: { results: [], is_cut: false } })
    t.match(await client.call(t, 'GET', '~/events/hashes/?day=2020-01-01&event=paid'), { status: 200, body: { results: [], is_cut: false } })
    const paying = { type: 'AND', values: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }] }
    const cohort = await client.call(t, 'POST', '~/cohorts/', { name: 'Paying', filters: paying })
    t.match(cohort, { status: 201, body: { name: 'Paying', is_static: false, filters: paying } })
    t.match(await client.call(t, 'GET', `~/cohorts/${cohort.body.id}/`), { status: 200, body: { kind: 'properties', people: null, used_by: [] } })
    t.match(await client.call(t, 'POST', `~/cohorts/${cohort.body.id}/refresh/`), { status: 200, body: { name: 'Paying' } })
    t.match(await client.call(t, 'DELETE', `~/cohorts/${cohort.body.id}/`), { status: 204 })
    t.match(await client.call(t, 'GET', '~/receipts/?distinct_id=nobody'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', '~/ledger/'), { status: 200, body: { next: null } })
    t.match(await client.call(t, 'GET', '~/event_definitions/volumes/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', '~/property_definitions/volumes/'), { status: 200, body: { results: Array } })
    const property = await insertProperty(stack, 'profiled')
    for (const [kind, id] of [['event', await insertEvent(stack, 'profiled')], ['property', property]]) {
      t.match(await client.call(t, 'GET', `~/${kind}_definitions/${id}/profile/`), { status: 200 })
    }
    t.match(await client.call(t, 'GET', '~/ingestion_warnings/summary/?hours=1'), { status: 200, body: { results: [] } })

    const person = personUuid(1, 'of 1')
    await stack.sql`INSERT INTO persons (project_id, uuid) VALUES (1, ${person})`
    t.match(await client.call(t, 'GET', '~/persons/?limit=1'), { status: 200, body: { results: [{ id: person }] } })
    t.match(await client.call(t, 'GET', `~/persons/${person}/`), { status: 200, body: { id: person, distinct_ids: [] } })
    t.match(await client.call(t, 'GET', `~/persons/search/?search=${person}`), { status: 200, body: { matches: [{ by: 'uuid', uuid: person }] } })
    t.match(await client.call(t, 'GET', `~/persons/${person}/history/`), { status: 200, body: { distinct_id_count: 0 } })
    await stack.sql`
      INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)
      SELECT 1, 'of ' || n, persons.id FROM persons, generate_series(1, 3) AS n WHERE uuid = ${person}`
    t.match(await client.call(t, 'POST', `~/persons/${person}/split/`, { distinct_ids: ['of 2', 'of 3'] }), { status: 200, body: { kind: 'split', persons: [String, String] } })
    t.match(await client.call(t, 'POST', `~/persons/${person}/split/`, { distinct_ids: ['of 3'] }), { status: 400, body: { attr: 'distinct_ids' } })
    t.match(await client.call(t, 'POST', `~/persons/${person}/undo_merge/`, { event: randomUUID() }), { status: 400, body: { attr: 'event' } })
    const merge = randomUUID()
    const identify = { uuid: merge, event: '$identify', distinct_id: 'of 2', properties: { $anon_distinct_id: 'of 3' } }
    await client.call(t, 'POST', '/batch/', { api_key: stack.projectApiKey, batch: [identify] })
    await waitFor(async () => (await client.call(t, 'GET', `~/events/${merge}/`)).body.stored !== null)
    await waitFor(async () => (await client.call(t, 'GET', `~/persons/${personUuid(1, 'of 2')}/`)).body.distinct_ids?.length === 2)
    t.match(await client.call(t, 'POST', `~/persons/${personUuid(1, 'of 2')}/undo_merge/`, { event: merge }), { status: 200, body: { kind: 'undo' } })
    t.match(await client.call(t, 'GET', '~/persons/repairs/'), { status: 200, body: { count: 2 } })
    t.match(await client.call(t, 'POST', '~/erasures/', { distinct_ids: ['of 3'], dry_run: true }), { status: 200, body: { id: null } })
    t.match(await client.call(t, 'POST', '~/erasures/', { events: { event: '$identify', distinct_id: 'of 2' }, dry_run: true }), { status: 200, body: { found: [{ where: 'events', count: 1 }] } })
    t.match(await client.call(t, 'POST', '~/erasures/', { distinct_ids: ['of 2'], persons: { event: 'x' } }), { status: 400, body: { attr: 'distinct_ids' } })
    await client.open(t, 'GET', '~/persons/export/?distinct_id=of 2')
    const erasure = await client.call(t, 'POST', '~/erasures/', { distinct_ids: ['of 2'] })
    t.match(erasure, { status: 200, body: { done_at: DATE_TIME } })
    t.same(erasure.body.found.find(({ where }: { where: string }) => where === 'events'), { where: 'events', count: 1 })
    t.match(await client.call(t, 'GET', '~/erasures/'), { status: 200, body: { count: 1, results: [{ id: erasure.body.id }] } })
    t.match(await client.call(t, 'DELETE', `~/erasures/${erasure.body.id}/`), { status: 204 })
    t.match(await client.call(t, 'DELETE', `~/persons/${person}/`), { status: /^20[24]$/ })
    t.match(await client.call(t, 'GET', `~/persons/deletions/?person=${person}`), { status: 200, body: { count: 1, results: [{ person }] } })
  })
}
/** Dead-letters a message as the pipeline does; its replay changes nothing. */
async function plantDeadLetter (stack: Stack): Promise<void> {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger })
  await publishDeadLetter(connection, {
    stage: 'persons', reason: 'refused', error: 'planted', subject: 'persons.0', sequence: 1, headers: {},
    body: Buffer.from('{}'), id: randomUUID(), project: 1
  })
  await connection.close()
}
