import type { Test } from 'tap'
import { type ContractSystem, DATE_TIME, typeOf, typesOf, UUID } from './contract-client.ts'

/** Sections 2.2, 2.3 and 4.1: experiments, with the user who created one and the flag it is linked to. */
export async function walkExperiments (t: Test, { client }: ContractSystem): Promise<void> {
  await t.test('2.2 User summary', async (t) => {
    const { body: { created_by: user } } = await client.call(t, 'POST', '~/experiments/', { name: 'By', feature_flag_key: 'by' })

    t.same(Object.keys(user).sort(), ['distinct_id', 'email', 'first_name', 'id', 'is_email_verified', 'uuid'])
    t.equal(typeOf(user.id), 'integer', 'id')
    t.match(user.uuid, UUID, 'uuid')
    t.equal(typeOf(user.distinct_id), 'string', 'distinct_id')
    t.equal(typeOf(user.first_name), 'string', 'first_name')
    t.match(user.email, /.+@.+/, 'email')
    t.equal(typeOf(user.is_email_verified), 'boolean', 'is_email_verified')
  })

  await t.test('2.3 Experiment and its linked flag', async (t) => {
    const written = {
      name: 'Whole', description: 'All fields', start_date: '2026-01-01T00:00:00.000Z', end_date: '2026-02-01T00:00:00.000Z',
      feature_flag_key: 'whole', parameters: { any: 'key' }, secondary_metrics: { any: { key: 1 } }, filters: { any: ['key'] },
      archived: true
    }

    const { body: experiment } = await client.call(t, 'POST', '~/experiments/', written)

    t.same(typesOf(experiment), {
      id: 'integer', name: 'string', description: 'string', start_date: 'string', end_date: 'string',
      feature_flag_key: 'string', feature_flag: 'object', parameters: 'object', secondary_metrics: 'object',
      filters: 'object', archived: 'boolean', created_by: 'object', created_at: 'string', updated_at: 'string'
    })
    for (const [field, value] of Object.entries(written)) t.same(experiment[field], value, `${field} is writable`)
    for (const field of ['created_at', 'updated_at']) t.match(experiment[field], DATE_TIME, field)
    t.same(typesOf(experiment.feature_flag), {
      id: 'integer', team_id: 'integer', name: 'string', key: 'string', filters: 'object', deleted: 'boolean',
      active: 'boolean', ensure_experience_continuity: 'boolean'
    })
  })

  await t.test('4.1 Experiments: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/experiments/', { name: 'Example', feature_flag_key: 'example' })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/experiments/?limit=1&offset=0'), { status: 200, body: { results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/experiments/${created.id}/`, { description: 'Partial' }), {
      status: 200, body: { name: 'Example', description: 'Partial' }
    }, 'update')
    await client.call(t, 'PATCH', `~/experiments/${created.id}/`, {
      start_date: '2026-01-01', filters: { insight: 'FUNNELS', events: [{ id: 'paid' }] }, secondary_metrics: [{ kind: 'count', event: 'paid' }]
    })
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/results/`), {
      status: 200, body: { id: created.id, name: 'Example', result: { significance_code: 'not_enough_exposure' } }
    }, 'results')
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/secondary_results/`), {
      status: 200, body: { id: created.id, result: [{ control: null, test: null }] }
    }, 'secondary results')
    t.match(await client.call(t, 'GET', '~/experiments/requires_flag_implementation/'), {
      status: 200, body: { id: created.id, result: true }
    }, 'requires flag implementation')
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/plan/`), { status: 200, body: { people: 0, baseline: null } }, 'plan')
    const filters = { groups: [{ properties: [] }], holdout: { id: 7, exclusion_percentage: 10 } }
    await client.call(t, 'POST', '~/feature_flags/', { key: 'held', filters })
    t.match(await client.call(t, 'GET', '~/experiments/holdouts/7/?metric={"kind":"count","event":"paid"}'), {
      status: 200, body: { flags: ['held'], result: Object }
    }, 'holdout')
    t.equal((await client.call(t, 'GET', '~/experiments/holdouts/8/?metric={"kind":"count","event":"paid"}')).status, 404)
    for (const [query, attr] of [['', 'metric'], ['?metric={', 'metric'], ['?metric={"kind":"count","event":"paid"}&from=then', 'from']]) {
      t.match(await client.call(t, 'GET', `~/experiments/holdouts/7/${query}`), { status: 400, body: { attr } })
    }
    t.match(await client.call(t, 'DELETE', `~/experiments/${created.id}/`), { status: 204, body: undefined }, 'delete')
    t.equal((await client.call(t, 'GET', `~/experiments/${created.id}/`)).status, 404)
  })
}
