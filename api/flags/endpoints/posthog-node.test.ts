/**
 * An oracle that we did not write: posthog-node reads our definitions over HTTP and evaluates them itself; our
 * endpoints must agree on every flag that it decides.
 */
import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { createRandom, type Random } from '../../../test/support/random.ts'
import {
  addFlags, addPerson, ask, createTestDecide, type TestDecide, type TestFlag
} from '../../testing/create-test-decide.ts'
import {
  buildRandomCohort, buildRandomFlag, buildRandomUser, GROUP_TYPES, type RandomUser
} from '../../testing/random-flags.ts'
import { EVERY_PROPERTY } from '../../testing/random-values.ts'

const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 20_260_615)

/** Pairs of flag and user; `MILLRACE_TEST_PAIRS=20000 npx node api/flags/endpoints/posthog-node.test.ts` for more. */
const PAIRS = Number(process.env.MILLRACE_TEST_PAIRS ?? (process.env.MILLRACE_TEST_LONG === '1' ? 20_000 : 2400))
const ZONES = ['UTC', 'Europe/Berlin', 'Australia/Lord_Howe']
const FLAGS = 150
const USERS = Math.ceil(PAIRS / ZONES.length / FLAGS)
const COHORTS = 12

type Json = Record<string, any>

// Where the program of the SDK runs is not where the project is.
process.env.TZ = 'America/St_Johns'

t.test('decide and flags agree with what posthog-node computes from our definitions', async (t) => {
  const random = createRandom(SEED)
  const counts: Record<string, number> = { agree: 0, 'left to the server': 0, differ: 0 }
  let decide = await createTestDecide(t)
  for (const zone of ZONES) {
    decide = await decide.inNewProject()
    await decide.sql`UPDATE projects SET timezone = ${zone} WHERE id = ${decide.projectId}`
    const { flags, sdk } = await addRandomFlags(t, decide, random)
    for (let i = 0; i < USERS; i++) {
      const user = buildRandomUser(random, i, flags.map(({ key }) => key), EVERY_PROPERTY)
      const { personProperties: stored } = buildRandomUser(random, i, [], EVERY_PROPERTY)
      if (random() < 0.3) await addPerson(decide, [user.distinctId], stored)
      const local = await sdk.getAllFlagsAndPayloads(user.distinctId, { ...user, onlyEvaluateLocally: true })
      const { details, legacy } = await askOurs(decide, user)
      for (const { key } of flags) {
        const detail = details[key]
        const ours = detail.variant ?? detail.enabled
        if (legacy.featureFlags[key] !== ours) t.fail(`decide and flags differ on ${key} for ${user.distinctId}`)
        const theirs = local.featureFlags?.[key]
        const isSame = theirs === ours && isSamePayload(local.featureFlagPayloads?.[key], detail)
        const outcome = theirs === undefined ? 'left to the server' : isSame ? 'agree' : 'differ'
        counts[outcome]!++
        if (outcome !== 'differ' || counts.differ! > 10) continue
        const about = { flag: flags.find((candidate) => candidate.key === key), user, stored }
        t.fail(`${zone}: ${key}: the SDK says ${theirs}, we ${ours}`, { about: JSON.stringify(about), detail })
      }
    }
  }

  t.comment(JSON.stringify(counts))
  t.equal(counts.differ, 0, `of ${FLAGS * USERS * ZONES.length} pairs`)
  t.ok(counts.agree! > 0.4 * FLAGS * USERS * ZONES.length, 'the SDK decided many of them')
})

t.test('posthog-node decides ordinary flags itself, and asks where it would decide otherwise', async (t) => {
  const decide = await createTestDecide(t)
  await decide.sql`UPDATE projects SET timezone = 'Europe/Berlin' WHERE id = ${decide.projectId}`
  const when = (operator: string, key: string, value: unknown): object => ({ properties: [{ key, operator, value, type: 'person' }] })
  const joined = (operator: string, value: string): TestFlag => ({ key: `${operator}-${value.replace(/\W/g, '_')}`, filters: { groups: [when(operator, 'joined', value)] } })
  const [after, hoursAgo, daysAgo] = [joined('is_date_after', '2026-01-01'), joined('is_date_before', '-24h'), joined('is_date_before', '-7d')]
  await addFlags(decide, [
    { key: 'staff', filters: { groups: [when('icontains', 'email', '@acme.com')] } },
    { key: 'partners', filters: { groups: [when('icontains', 'email', ['@acme.com', '@example.com'])] } },
    { key: 'adults', filters: { groups: [when('gte', 'age', 18)] } },
    { key: 'new-app', filters: { groups: [when('semver_gte', 'version', '2.1')] } },
    { key: 'not-free', filters: { groups: [when('is_not', 'plan', 'free')] } },
    { key: 'test', filters: { groups: [{ ...when('ends_with', 'email', '.test'), variant: 'test' }, {}], multivariate: { variants: [{ key: 'control', rollout_percentage: 100 }, { key: 'test', rollout_percentage: 0 }] } } },
    after, hoursAgo, daysAgo
  ])
  const client = connect(t, decide, decide.personalKey)
  await client.reloadFeatureFlags()
  const local = async (key: string, personProperties: Record<string, any>): Promise<unknown> =>
    await client.getFeatureFlag(key, 'u1', { personProperties, onlyEvaluateLocally: true })
  const inOtherForms = ['2026-01-01 12:00:00', '2026-01-02', 1_780_000_000, '1780000000', 1_780_000_000.5, 'Jan 7', null]
  const cases: [key: string, properties: Json, expected: unknown][] = [
    ['staff', { email: 'ann@ACME.com' }, true], ['staff', { email: 'bob@example.com' }, false], ['partners', { email: 'ann@acme.com' }, undefined], ['adults', { age: 18 }, true], ['adults', { age: '17.5' }, false],
    ['adults', { age: '20 years' }, false], ['adults', { age: 'many' }, false], ['new-app', { version: '2.10.1' }, true], ['not-free', { plan: 'Pro' }, true],
    ['test', { email: 'a@b.test' }, 'test'], ['test', { email: 'a@b.de' }, 'control'], ['test', {}, undefined],
    // In Berlin the year begins an hour earlier.
    [after.key, { joined: '2025-12-31T23:00:00.001Z' }, true], [after.key, { joined: '2025-12-31T23:00:00Z' }, false], [after.key, { joined: '2026-01-01T00:30:00+01:00' }, true],
    ...inOtherForms.map((joined): [string, Json, undefined] => [after.key, { joined }, undefined]),
    [hoursAgo.key, { joined: '2026-01-01T00:00:00Z' }, true], [daysAgo.key, { joined: '2026-01-01T00:00:00Z' }, undefined]
  ]
  for (const [key, properties, expected] of cases) t.equal(await local(key, properties), expected, `${key} ${JSON.stringify(properties)}`)
  t.equal(await client.getFeatureFlag(after.key, 'u1', { personProperties: { joined: 1_780_000_000 } }), true, 'the server knows seconds')
  t.equal(await client.getFeatureFlag(after.key, 'u1', { personProperties: { joined: '2026-01-01 00:00:01' } }), true, 'and its zone')
})

async function addRandomFlags (
  t: Test, decide: TestDecide, random: Random
): Promise<{ flags: TestFlag[], sdk: PostHog }> {
  const filters = Array.from({ length: COHORTS }, () => buildRandomCohort(random, EVERY_PROPERTY))
  const cohorts = await addCohorts(decide, filters)
  const flags: TestFlag[] = []
  for (let i = 0; i < FLAGS; i++) {
    const others = { earlier: flags.slice(0, 50), cohortIds: [...cohorts.keys()], properties: EVERY_PROPERTY }
    flags.push(buildRandomFlag(random, i, others))
  }
  await addFlags(decide, flags)
  const sdk = new PostHog(decide.projectKey, {
    host: decide.url, personalApiKey: decide.personalKey, featureFlagsPollingInterval: 600_000
  })
  t.teardown(async () => await sdk.shutdown())
  await sdk.reloadFeatureFlags()
  const { body } = await ask(decide, `/flags/definitions?token=${decide.projectKey}&send_cohorts`, undefined,
    { authorization: `Bearer ${decide.personalKey}` })
  // Every tenth has early access, as many mix persons and groups.
  t.ok(body.flags.length > 0.7 * FLAGS, `${body.flags.length} of ${FLAGS} flags are served`)
  return { flags, sdk }
}

async function addCohorts (decide: TestDecide, filters: Json[]): Promise<Map<number, Json>> {
  const { sql, projectId } = decide
  for (const [index, type] of GROUP_TYPES.entries()) {
    await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${projectId}, ${type}, ${index})`
  }
  const cohorts = new Map<number, Json>()
  for (const filter of filters) {
    const [row] = await sql<Array<{ id: number }>>`
      INSERT INTO cohorts ${sql({ project_id: projectId, name: 'c', filters: sql.json(filter) })} RETURNING id`
    cohorts.set(row!.id, filter)
  }
  return cohorts
}

async function askOurs (decide: TestDecide, user: RandomUser): Promise<{ details: Json, legacy: Json }> {
  const body = {
    distinct_id: user.distinctId,
    groups: user.groups,
    person_properties: user.personProperties,
    group_properties: user.groupProperties,
    evaluation_runtime: 'all'
  }
  const [flags, legacy] = await Promise.all([ask(decide, '/flags/?v=2', body), ask(decide, '/decide/?v=3', body)])
  if (flags.body.errorsWhileComputingFlags !== false) throw new Error('our answer is not complete')
  return { details: flags.body.flags, legacy: legacy.body }
}

function isSamePayload (theirs: unknown, detail: Json): boolean {
  const ours = detail.metadata.payload === undefined ? undefined : JSON.parse(detail.metadata.payload)
  return JSON.stringify(theirs ?? null) === JSON.stringify(ours ?? null)
}

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
