/**
 * `millrace import-flags`: flags of PostHog answer here as before. The oracle is posthog-node, which evaluates the
 * original definitions itself. `MILLRACE_TEST_FLAGS=200 MILLRACE_TEST_USERS=2000` compares more.
 */
import { PostHog } from 'posthog-node'
import t from 'tap'
import type { TestFlag } from '../../api/testing/create-test-decide.ts'
import {
  buildRandomCohort, buildRandomFlag, buildRandomUser, GROUP_TYPES, type RandomUser
} from '../../api/testing/random-flags.ts'
import { createRandom, pickOne, type Random } from '../../test/support/random.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { startHttp, writeFiles } from '../testing/posthog-double.ts'
import { type ServedApi, startApi } from '../testing/run-captured.ts'
import type { CarriedItem } from './carry-over.ts'

const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 20_261_126)
const FLAGS = Number(process.env.MILLRACE_TEST_FLAGS ?? 60)
const USERS = Number(process.env.MILLRACE_TEST_USERS ?? 40)
const COHORTS = 8

type Json = Record<string, any>

interface Original { flags: Json[], cohorts: Json[] }

/** Fields of a flag in PostHog's API that decide no value. */
const DECIDES_NOTHING = {
  deleted: false, archived: false, version: 3, tags: [], can_edit: true, status: 'ACTIVE', is_simple_flag: false,
  rollout_percentage: null, experiment_set: [], surveys: null, features: [], rollback_conditions: null,
  performed_rollback: false, has_encrypted_payloads: false, is_remote_configuration: false, evaluation_contexts: []
}

/** A project as PostHog's API lists it: ids of its own, references by id, fields of which most decide nothing. */
function buildOriginal (random: Random): Original {
  const cohorts = Array.from({ length: COHORTS }, (_, i) => ({
    id: 500 + i,
    name: `Cohort ${i}`,
    description: '',
    deleted: false,
    is_static: false,
    is_calculating: false,
    count: 7,
    groups: [],
    filters: { properties: buildRandomCohort(random) }
  }))
  const plain: TestFlag[] = []
  for (let i = 0; i < FLAGS; i++) {
    const cohortIds = cohorts.map(({ id }) => id)
    plain.push(buildRandomFlag(random, i, { earlier: plain.slice(0, 30), cohortIds }))
  }
  const ids = new Map(plain.map(({ key }, i) => [key, 1000 + i]))
  const flags = plain.map((flag) => ({
    ...flag,
    ...DECIDES_NOTHING,
    id: ids.get(flag.key),
    name: `What ${flag.key} is for`,
    filters: asPosthogWrites(flag.filters, ids, random)
  }))
  // Newest first, as the API lists them.
  return { flags: flags.reverse(), cohorts }
}

/** References to flags by id; shares of any sum, as older flags have them, but nothing else that PostHog refuses. */
function asPosthogWrites (value: any, ids: ReadonlyMap<string, number>, random: Random): any {
  if (Array.isArray(value)) return value.map((item) => asPosthogWrites(item, ids, random))
  if (typeof value !== 'object' || value === null) return value
  const copied = Object.entries(value).map(([name, item]) => [name, asPosthogWrites(item, ids, random)])
  const copy: Json = Object.fromEntries(copied)
  if (copy.type === 'flag') return { ...copy, key: String(ids.get(copy.key)), label: copy.key }
  if (/regex$/.test(copy.operator) && /^[([]$/.test(copy.value)) copy.value = '^a'
  if (Array.isArray(copy.variants)) {
    for (const variant of copy.variants) variant.rollout_percentage *= pickOne([1, 1, 1.1, 2.6, -0.4], random)
  } else if (copy.rollout_percentage === 75) {
    copy.rollout_percentage = pickOne([75, 150, -20], random)
  }
  return copy
}

/** The definitions that SDKs of PostHog get: keys in place of ids, with the flags to compute first. */
function describeForSdk ({ flags, cohorts }: Original): Json {
  const byId = new Map(flags.map((flag) => [String(flag.id), flag]))
  const chainOf = (id: string): string[] => {
    const flag = byId.get(id)!
    const properties: Json[] = flag.filters.groups.flatMap((group: Json) => group.properties)
    const others = properties.filter(({ type }) => type === 'flag').map(({ key }) => key as string)
    return [...new Set([...others.flatMap(chainOf), flag.key as string])]
  }
  const holdoutOf = ({ holdout_groups: older }: Json): Json => older === undefined
    ? {}
    : { holdout: { id: older[0].variant.slice('holdout-'.length), exclusion_percentage: older[0].rollout_percentage } }
  return {
    flags: flags.filter(isForSdk).map((flag) => ({
      ...flag,
      filters: {
        ...flag.filters,
        ...holdoutOf(flag.filters),
        groups: flag.filters.groups.map((group: Json) => ({
          ...group,
          properties: group.properties.map((property: Json) => property.type === 'flag'
            ? { ...property, key: byId.get(property.key)!.key, dependency_chain: chainOf(property.key) }
            : property)
        }))
      }
    })),
    cohorts: Object.fromEntries(cohorts.map(({ id, filters }) => [id, filters.properties])),
    group_type_mapping: Object.fromEntries(GROUP_TYPES.entries()),
    property_matching_version: 2
  }
}

/** SDKs know nothing of early access, nor of conditions that count by something else than a flag of groups. */
function isForSdk ({ active, filters }: Json): boolean {
  if (active !== true) return true
  if (filters.feature_enrollment === true || filters.super_groups?.length > 0) return false
  const ofFlag = filters.aggregation_group_type_index
  return filters.groups.every(({ properties, aggregation_group_type_index: own = ofFlag }: Json) =>
    (ofFlag === undefined || own === ofFlag) && properties.every(({ type, group_type_index: index }: Json) =>
      type === 'flag' || (own ?? null) === (type === 'group' ? index : null)))
}

/** Every property, of a value that SDK and server read alike (docs/reference/contract/sdks.md 2.7). */
function buildUser (random: Random, i: number): RandomUser {
  const user = buildRandomUser(random, i, [])
  const known = (properties: Json): Json => ({
    plan: 'free',
    email: 'x',
    joined: '2025-06-15',
    ...properties,
    age: pickOne([0, 1, 17.5, '18', 42, '99.5', -3], random),
    version: pickOne(['1.2.3', 'v2.0.0', '1.10', '2.0.0-beta', '0.2.9', '0.0.4'], random)
  })
  const ofGroups = Object.entries(user.groupProperties).map(([type, properties]) => [type, known(properties)])
  return { ...user, personProperties: known(user.personProperties), groupProperties: Object.fromEntries(ofGroups) }
}

async function insertGroupTypes ({ sql, projectId }: ServedApi): Promise<void> {
  // In another order than in PostHog.
  for (const [index, type] of [...GROUP_TYPES].reverse().entries()) {
    await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${projectId}, ${type}, ${index})`
  }
}

t.test('every user gets the value here that PostHog gave, and a second run changes nothing', async (t) => {
  const random = createRandom(SEED)
  const api = await startApi(t)
  await insertGroupTypes(api)
  const original = buildOriginal(random)
  const half = Math.ceil(FLAGS / 2)
  const folder = await writeFiles(t, {
    'flags-1.json': { count: FLAGS, next: 'https://app.example.com/?offset=2', results: original.flags.slice(0, half) },
    'flags-2.json': { count: FLAGS, next: null, results: original.flags.slice(half) },
    'cohorts.json': original.cohorts,
    'groups.json': GROUP_TYPES.map((name, index) => ({ group_type: name, group_type_index: index })),
    'project.json': { id: 2, api_token: 'phc_x', timezone: 'UTC' }
  })
  const run = async (): Promise<CarriedItem[]> => {
    const { out, err } = await api.run('import-flags', folder, '--json')
    t.equal(err, '')
    return JSON.parse(out).items
  }
  const items = await run()
  const leftOut = items.filter(({ outcome }) => outcome === 'left out')
  const others = leftOut.filter(({ reason }) => !/continuity|depends on flag/.test(reason!))
  t.same(others, [], 'all but flags with continuity are carried over')
  const again = await run()
  t.same(again.filter(({ outcome }) => outcome !== 'unchanged'), leftOut, 'nothing changes')

  const host = await startHttp(t, () => describeForSdk(original))
  const sdk = new PostHog('phc_x', { host, personalApiKey: 'phx_x', featureFlagsPollingInterval: 600_000 })
  t.teardown(async () => await sdk.shutdown())
  await sdk.reloadFeatureFlags()
  const carried = items.filter(({ kind, outcome }) => kind === 'flag' && outcome === 'created').map(({ name }) => name)
  const askOnce = async (user: RandomUser): Promise<Json> => {
    const response = await fetch(`${api.env.MILLRACE_URL}/flags/?v=2`, {
      method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        api_key: api.projectKey,
        distinct_id: user.distinctId,
        groups: user.groups,
        person_properties: user.personProperties,
        group_properties: user.groupProperties,
        evaluation_runtime: 'all'
      })
    })
    return (await response.json() as Json).flags
  }
  /** Until no stored property was out of reach, as on a machine that is busy. */
  const ask = async (user: RandomUser): Promise<Json> => {
    let flags: Json = {}
    await waitFor(async () => {
      flags = await askOnce(user)
      return Object.values(flags).every(({ reason }) => reason.code !== 'database_error')
    })
    return flags
  }
  const someone = buildUser(random, 0)
  await waitFor(async () => Object.keys(await ask(someone)).length === carried.length)

  const counts = { agree: 0, differ: 0, leftToServer: 0 }
  for (let i = 0; i < USERS; i++) {
    const user = buildUser(random, i)
    const options = { ...user, onlyEvaluateLocally: true }
    const { featureFlags: theirs = {} } = await sdk.getAllFlagsAndPayloads(user.distinctId, options)
    const ours = await ask(user)
    for (const key of carried) {
      const value = ours[key].variant ?? ours[key].enabled
      const outcome = theirs[key] === undefined ? 'leftToServer' : theirs[key] === value ? 'agree' : 'differ'
      counts[outcome]++
      if (outcome !== 'differ' || counts.differ > 5) continue
      t.fail(`${key} for ${user.distinctId}: PostHog ${String(theirs[key])}, here ${String(value)}`, {
        flag: original.flags.find((flag) => flag.key === key), user, ours: ours[key]
      })
    }
  }
  t.comment(JSON.stringify({ ...counts, carried: carried.length, flags: FLAGS, users: USERS }))
  t.equal(counts.differ, 0)
  t.ok(counts.agree > 0.5 * carried.length * USERS, 'the SDK decided most of them')
})
