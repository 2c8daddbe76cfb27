import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { addFlags, addPerson, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'

const VARIANTS = { variants: [{ key: 'control', rollout_percentage: 0 }, { key: 'test', rollout_percentage: 100 }] }

function connect (t: Test, decide: TestDecide, personalApiKey?: string): PostHog {
  const client = new PostHog(decide.projectKey, {
    host: decide.url, sendFeatureFlagEvent: false, ...(personalApiKey === undefined ? {} : { personalApiKey })
  })
  t.teardown(async () => await client.shutdown())
  return client
}

t.test('posthog-node reads values, variants and payloads', async (t) => {
  const decide = await createTestDecide(t)
  await addPerson(decide, ['u1'], { plan: 'pro' })
  await decide.sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${decide.projectId}, 'company', 0)`
  const plan = { key: 'plan', value: 'pro', type: 'person' }
  const key = { key: '$group_key', value: 'acme', type: 'group', group_type_index: 0 }
  await addFlags(decide, [
    { key: 'pro', filters: { groups: [{ properties: [plan] }], payloads: { true: '{"max":5}' } } },
    { key: 'color', filters: { groups: [{}], multivariate: VARIANTS, payloads: { test: '"blue"' } } },
    { key: 'acme', filters: { aggregation_group_type_index: 0, groups: [{ properties: [key] }] } },
    { key: 'off', filters: { groups: [] } }
  ])
  const client = connect(t, decide)

  t.equal(await client.getFeatureFlag('pro', 'u1'), true)
  t.same(await client.getFeatureFlagPayload('pro', 'u1'), { max: 5 })
  t.equal(await client.getFeatureFlag('pro', 'u1', { personProperties: { plan: 'free' } }), false)
  t.equal(await client.getFeatureFlag('color', 'u2'), 'test')
  t.equal(await client.getFeatureFlagPayload('color', 'u2'), 'blue')
  t.equal(await client.isFeatureEnabled('off', 'u1'), false)
  t.equal(await client.getFeatureFlag('nobody', 'u1'), undefined)
  t.equal(await client.isFeatureEnabled('acme', 'u1', { groups: { company: 'acme' } }), true)
  t.equal(await client.isFeatureEnabled('acme', 'u1', { groups: { company: 'other' } }), false)
  t.same(await client.getAllFlags('u1', { groups: { company: 'acme' } }), { pro: true, color: 'test', acme: true, off: false })
})

t.test('posthog-node evaluates locally, and requests what it cannot decide', async (t) => {
  const decide = await createTestDecide(t)
  await addPerson(decide, ['u1'], { plan: 'pro' })
  await addFlags(decide, [
    { key: 'half', filters: { groups: [{ rollout_percentage: 50 }] } },
    { key: 'pro', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] } },
    { key: 'limits', filters: { groups: [{}], payloads: { true: '{"max":5}' } } }
  ])
  const client = connect(t, decide, decide.personalKey)
  const remote = connect(t, decide)

  await client.reloadFeatureFlags()
  for (let i = 0; i < 50; i++) {
    t.equal(await client.getFeatureFlag('half', `u${i}`, { onlyEvaluateLocally: true }), await remote.getFeatureFlag('half', `u${i}`))
  }
  t.equal(await client.getFeatureFlag('pro', 'u1', { onlyEvaluateLocally: true }), undefined)
  t.equal(await client.getFeatureFlag('pro', 'u1'), true)
})

t.test('posthog-node asks the server for flags with early access, and gets those for servers', async (t) => {
  const decide = await createTestDecide(t)
  await addPerson(decide, ['u1'], { '$feature_enrollment/beta': 'true' })
  await addFlags(decide, [
    { key: 'beta', filters: { groups: [], feature_enrollment: true } },
    { key: 'of-servers', evaluation_runtime: 'server' }, { key: 'of-clients', evaluation_runtime: 'client' }
  ])
  const client = connect(t, decide, decide.personalKey)
  await client.reloadFeatureFlags()

  t.equal(await client.getFeatureFlag('beta', 'u1', { onlyEvaluateLocally: true }), undefined)
  t.equal(await client.getFeatureFlag('beta', 'u1'), true)
  t.equal(await client.getFeatureFlag('beta', 'u2'), false)
  t.same(await connect(t, decide).getAllFlags('u1'), { beta: true, 'of-servers': true })
})
