/**
 * An oracle that we did not write: posthog-node reads our definitions over HTTP and evaluates them itself; our
 * endpoints must agree on every flag that it decides.
 */
import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { createRandom } from '../../../test/support/random.ts'
import {
  addFlags, addPerson, ask, createTestDecide, type TestDecide, type TestFlag
} from '../../testing/create-test-decide.ts'
import {
  buildRandomCohort, buildRandomFlag, buildRandomUser, GROUP_TYPES, type RandomUser
} from '../../testing/random-flags.ts'

const SEED = 20_260_615
const FLAGS = 300
const USERS = 100
const COHORTS = 12

type Json = Record<string, any>

t.test('decide and flags agree with what posthog-node computes from our definitions', async (t) => {
  const random = createRandom(SEED)
  const decide = await createTestDecide(t)
  const cohorts = await addCohorts(decide, Array.from({ length: COHORTS }, () => buildRandomCohort(random)))
  const flags: TestFlag[] = []
  for (let i = 0; i < FLAGS; i++) {
    flags.push(buildRandomFlag(random, i, { earlier: flags.slice(0, 100), cohortIds: [...cohorts.keys()] }))
  }
  await addFlags(decide, flags)
  const sdk = new PostHog(decide.projectKey, {
    host: decide.url, personalApiKey: decide.personalKey, featureFlagsPollingInterval: 600_000
  })
  t.teardown(async () => await sdk.shutdown())
  await sdk.reloadFeatureFlags()

  const excuse = createExcuse(flags, cohorts)
  const counts: Record<string, number> = {}
  for (let i = 0; i < USERS; i++) {
    const user = buildRandomUser(random, i, flags.map(({ key }) => key))
    const local = await sdk.getAllFlagsAndPayloads(user.distinctId, { ...user, onlyEvaluateLocally: true })
    const { details, legacy } = await askOurs(decide, user)
    for (const { key } of flags) {
      const detail = details[key]
      const ours = detail.variant ?? detail.enabled
      if (legacy.featureFlags[key] !== ours) t.fail(`decide and flags answer ${key} differently for ${user.distinctId}`)
      const theirs = local.featureFlags?.[key]
      const same = theirs === ours && isSamePayload(local.featureFlagPayloads?.[key], detail)
      const outcome = theirs === undefined
        ? 'left to the server'
        : same ? 'agree' : excuse(key, user, details) ?? 'differ'
      counts[outcome] = (counts[outcome] ?? 0) + 1
      if (outcome !== 'differ') continue
      const flag = flags.find((candidate) => candidate.key === key)
      t.fail(`${key} for ${user.distinctId}: the SDK says ${theirs}, we ${ours}`, { flag, user, detail })
    }
  }

  t.comment(JSON.stringify(counts))
  t.equal(counts.differ, undefined)
  t.ok((counts.agree ?? 0) > 0.5 * FLAGS * USERS, 'the SDK decided most of them')
})

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

/**
 * The differences between SDK and server that the protocol names (docs/reference/contract/sdks.md 2.7), by name:
 *
 * - The SDK compares texts where a side of a number operator is not a number; so any condition set may match there.
 * - A missing property or a version with leading zeros is inconclusive in the SDK, which goes on to the next condition
 *   set, while the server decides. It counts only in the set that decided our answer.
 *
 * Flags that a flag asks for, and cohorts, are looked through.
 */
function createExcuse (flags: readonly TestFlag[], cohorts: ReadonlyMap<number, Json>) {
  const byKey = new Map(flags.map((flag) => [flag.key, flag.filters as Json]))

  return function excuse (key: string, user: RandomUser, details: Json): string | undefined {
    const all = leavesOf(key, () => true)
    if (all.some((leaf) => isNoNumber(leaf, user))) return 'no number: the SDK compares texts'
    // A flag that is asked for and is off was decided by all of its condition sets.
    const deciding = leavesOf(key, (flag, index) =>
      details[flag].reason.condition_index === index || (flag !== key && details[flag].enabled === false))
    if (deciding.some((leaf) => valueOf(leaf, user) === undefined)) return 'missing value: the server decides'
    if (deciding.some((leaf) => hasLeadingZeros(leaf, user))) return 'leading zeros: the server strips them'
  }

  /** All filters on properties in the chosen condition sets of a flag and of the flags it asks for. */
  function leavesOf (key: string, isChosen: (flag: string, index: number) => boolean): Json[] {
    const groups: Json[] = byKey.get(key)!.groups
    return groups.filter((_, index) => isChosen(key, index)).flatMap(({ properties }) =>
      properties.flatMap((property: Json) => expand(property, isChosen)))
  }

  function expand (property: Json, isChosen: (flag: string, index: number) => boolean): Json[] {
    if (property.type === 'flag') return leavesOf(property.key, isChosen)
    const members = property.type === 'cohort' ? cohorts.get(property.value)!.values : property.values
    return members === undefined ? [property] : members.flatMap((member: Json) => expand(member, isChosen))
  }
}

function valueOf (leaf: Json, user: RandomUser): unknown {
  const groupType = GROUP_TYPES[leaf.group_type_index] ?? ''
  return (leaf.type === 'group' ? user.groupProperties[groupType] ?? {} : user.personProperties)[leaf.key]
}

function isNoNumber (leaf: Json, user: RandomUser): boolean {
  const value = valueOf(leaf, user)
  return /^[gl]te?$/.test(leaf.operator) && value !== undefined && !/^-?\d+(\.\d+)?$/.test(String(value))
}

function hasLeadingZeros (leaf: Json, user: RandomUser): boolean {
  return leaf.operator.startsWith('semver') && /(^|\.)0\d/.test(String(valueOf(leaf, user)))
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
