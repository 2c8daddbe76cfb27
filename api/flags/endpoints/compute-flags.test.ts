import t from 'tap'
import { startTierProcess, type TierProcess } from '../../../test/support/start-tier-process.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { addFlags, addPerson, ask, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'

/** Values by flag; flags must be computed without errors. */
async function values (decide: TestDecide, body: object): Promise<Record<string, unknown>> {
  const answer = await ask(decide, '/decide/?v=3', body)
  if (answer.status !== 200 || answer.body.errorComputingFlags !== false) throw new Error(JSON.stringify(answer.body))
  return answer.body.featureFlags
}

function forPlan (value: string): object {
  return { groups: [{ properties: [{ key: 'plan', value, operator: 'exact', type: 'person' }] }] }
}

t.test('stored properties are read in one query and only if needed, and overrides take precedence', async (t) => {
  const decide = await createTestDecide(t)
  await addPerson(decide, ['u1', 'u1-phone'], { plan: 'pro', country: 'ch' })
  const country = { groups: [{ properties: [{ key: 'country', value: 'CH', type: 'person' }] }] }
  await addFlags(decide, [
    { key: 'pro', filters: forPlan('pro') }, { key: 'ch', filters: country }, { key: 'all' }
  ])

  t.same(await values(decide, { distinct_id: 'u1-phone' }), { pro: true, ch: true, all: true })
  t.equal(decide.reads.facts, 1)
  t.same(await values(decide, { distinct_id: 'u1', person_properties: { plan: 'free' } }), { pro: false, ch: true, all: true })
  t.equal(decide.reads.facts, 2)
  const both = { plan: 'pro', country: 'de' }
  t.same(await values(decide, { distinct_id: 'u1', person_properties: both }), { pro: true, ch: false, all: true })
  t.same(await values(decide, { distinct_id: 'nobody', person_properties: both }), { pro: true, ch: false, all: true })
  t.equal(decide.reads.facts, 2, 'overrides sufficed')
  t.same(await values(decide, { distinct_id: 'nobody' }), { pro: false, ch: false, all: true })
  t.equal(decide.reads.facts, 3)
})

t.test('ids, groups and properties are normalised as in capture', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId, projectKey } = decide
  const emoji = '😀'.repeat(200)
  for (const id of ['9007199254740993', emoji, 'a\ufffdb']) await addPerson(decide, [id], { 'n\ufffd': 'x' })
  await sql`UPDATE persons SET properties = properties || '{"account": 9007199254740993}'`
  await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${projectId}, ${'t\ufffd'}, 0)`
  await sql`INSERT INTO groups (project_id, group_type_index, group_key, properties) VALUES
    (${projectId}, 0, ${'k'.repeat(400)}, '{"size": 50}'), (${projectId}, 0, '18446744073709551615', '{"size": 50}')`
  const account = [{ key: 'account', value: '9007199254740993', type: 'person' }, { key: 'n\ufffd', value: 'x', type: 'person' }]
  const size = [{ key: 'size', value: 50, type: 'group', group_type_index: 0 }]
  await addFlags(decide, [
    { key: 'account', filters: { groups: [{ properties: account }] } },
    { key: 'big', filters: { aggregation_group_type_index: 0, groups: [{ properties: size }] } }
  ])
  const ask3 = async (fields: string): Promise<unknown> =>
    (await ask(decide, '/decide/?v=3', `{"token":"${projectKey}",${fields}}`)).body.featureFlags

  for (const id of ['9007199254740993', '"9007199254740993"', `"${emoji}"`, `"${emoji}😀"`, '"a\\u0000b"', '"a\\udc00b"']) {
    t.same(await ask3(`"distinct_id":${id},"x":NaN`), { account: true, big: false }, id)
  }
  for (const id of ['9007199254740992', '9007199254740994', `"${'😀'.repeat(199)}"`, '"ab"']) {
    t.same(await ask3(`"distinct_id":${id}`), { account: false, big: false }, id)
  }
  t.same(await ask3('"distinct_id":1,"person_properties":{"account":9007199254740993,"n\\u0000":"x"}'), { account: true, big: false })
  for (const key of [`"${'k'.repeat(400)}"`, `"${'k'.repeat(401)}"`, '18446744073709551615']) {
    t.same(await ask3(`"distinct_id":1,"groups":{"t\\u0000":${key}}`), { account: false, big: true }, key)
  }
  t.same(await ask3(`"distinct_id":1,"groups":{"t\\u0000":"${'k'.repeat(399)}"}`), { account: false, big: false })
  t.match(await ask(decide, '/flags/?v=2', `{"token":"${projectKey}","distinct_id":1,"groups":12345678901234567890}`),
    { status: 400, body: { attr: 'groups' } }, 'a long number is no object')
})

t.test('persons of another project do not count', async (t) => {
  const decide = await createTestDecide(t)
  const [other] = await decide.sql<Array<{ id: number }>>`INSERT INTO projects (name) VALUES ('Other') RETURNING id`
  await addPerson({ ...decide, projectId: other!.id }, ['u1'], { plan: 'pro' })
  await addFlags(decide, [{ key: 'pro', filters: forPlan('pro') }])

  t.same(await values(decide, { distinct_id: 'u1' }), { pro: false })
})

t.test('groups have stored properties too, for any number of group types', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  for (let i = 0; i < 8; i++) {
    await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${projectId}, ${`type-${i}`}, ${i})`
  }
  await sql`INSERT INTO groups (project_id, group_type_index, group_key, properties) VALUES
    (${projectId}, 7, 'acme', '{"size": 50}'), (${projectId}, 6, 'acme', '{"size": 1}')`
  const size = [{ key: 'size', value: 10, operator: 'gt', type: 'group', group_type_index: 7 }]
  await addFlags(decide, [
    { key: 'big', filters: { aggregation_group_type_index: 7, groups: [{ properties: size }] } },
    { key: 'mixed', filters: { groups: [{ properties: [...size, { key: 'plan', value: 'pro', type: 'person' }] }] } }
  ])

  t.same(await values(decide, { distinct_id: 'u', groups: { 'type-7': 'acme' } }), { big: true, mixed: false })
  t.equal(decide.reads.facts, 1)
  t.same(await values(decide, {
    distinct_id: 'u', groups: { 'type-7': 'acme' }, group_properties: { 'type-7': { size: 5 } }, person_properties: { plan: 'pro' }
  }), { big: false, mixed: false })
  t.same(await values(decide, { distinct_id: 'u', groups: { unknown: 'acme' }, person_properties: { plan: 'pro' } }),
    { big: false, mixed: false })
  t.equal(decide.reads.facts, 1)
})

t.test('static cohorts are read in the same query', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  const personId = await addPerson(decide, ['u1'])
  const [cohort] = await sql<Array<{ id: number }>>`
    INSERT INTO cohorts (project_id, name, is_static) VALUES (${projectId}, 'friends', true) RETURNING id`
  await sql`INSERT INTO cohort_members VALUES (${cohort!.id}, ${personId})`
  const filters = (operator: string): object =>
    ({ groups: [{ properties: [{ key: 'id', type: 'cohort', value: cohort!.id, operator }] }] })
  await addFlags(decide, [{ key: 'in', filters: filters('in') }, { key: 'out', filters: filters('not_in') }])

  t.same(await values(decide, { distinct_id: 'u1' }), { in: true, out: false })
  t.same(await values(decide, { distinct_id: 'u2' }), { in: false, out: true })
  t.equal(decide.reads.facts, 2)
})

t.test('a cohort whose members were never found is unknown, and not empty', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  const [{ id }] = await sql<[{ id: number }]>`
    INSERT INTO cohorts (project_id, name, filters) VALUES (${projectId}, 'payers', '{"type": "AND", "values": [{"type": "behavioral"}]}') RETURNING id`
  await addFlags(decide, [{ key: 'out', filters: { groups: [{ properties: [{ key: 'id', type: 'cohort', value: id, operator: 'not_in' }] }] } }])
  t.match((await ask(decide, '/flags/?v=2', { distinct_id: 'u1' })).body, { errorsWhileComputingFlags: true, flags: { out: { failed: true } } })
  await sql`INSERT INTO cohort_refreshes (cohort_id, tried_at, refreshed_at) VALUES (${id}, now(), now())`
  await sql`SELECT raise_flag_revision(${projectId})`
  await decide.refresh()
  t.same(await values(decide, { distinct_id: 'u1' }), { out: true })
})

t.test('only_use_override_person_properties ignores stored properties', async (t) => {
  const decide = await createTestDecide(t)
  await addPerson(decide, ['u1'], { plan: 'pro' })
  await addFlags(decide, [{ key: 'pro', filters: forPlan('pro') }])

  const { body } = await ask(decide, '/flags/?v=2&only_use_override_person_properties=true', { distinct_id: 'u1' })

  t.equal(body.flags.pro.enabled, false)
  t.equal(decide.reads.facts, 0)
})

const STICKY = { key: 'sticky', filters: { groups: [{ rollout_percentage: 50 }] }, ensure_experience_continuity: true }
const PLAIN = { key: 'plain', filters: { groups: [{ rollout_percentage: 50 }] } }

async function valueOf (decide: TestDecide, distinctId: string, anonymous?: string): Promise<boolean> {
  const { body } = await ask(decide, '/flags/?v=2', { distinct_id: distinctId, $anon_distinct_id: anonymous })
  if (body.errorsWhileComputingFlags !== false) throw new Error(JSON.stringify(body))
  return body.flags.sticky.enabled
}

/** A user and an anonymous id whose own values differ, so that sticking shows. */
async function findPair (
  decide: TestDecide, suffix: string
): Promise<{ user: string, anonymous: string, value: boolean }> {
  const user = `user-${suffix}`
  const own = await valueOf(decide, user)
  for (let i = 0; ; i++) {
    const anonymous = `anon-${suffix}-${i}`
    if (await valueOf(decide, anonymous) !== own) return { user, anonymous, value: !own }
  }
}

const shared = await createTestDecide(t)

t.test('an identified user keeps the value of the anonymous one, also on devices that do not send the anonymous id', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY, PLAIN])
  const { user, anonymous, value } = await findPair(decide, 'a')

  t.equal(await valueOf(decide, user, anonymous), value)
  t.equal(await valueOf(decide, user), value, 'a server that only knows the user agrees')
  t.equal(await valueOf(decide, user, 'another-browser'), value, 'the first one stays')
  const kept = await decide.sql`SELECT feature_flag_key, hash_key FROM flag_hash_keys WHERE project_id = ${decide.projectId}`
  t.same(kept, [{ feature_flag_key: 'sticky', hash_key: anonymous }])
})

t.test('a server passes the anonymous id on as a property of the person, below a field of its own', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  const askWith = async (fields: object, anonymous: unknown): Promise<unknown> => (await ask(decide, '/flags/?v=2', {
    ...fields, person_properties: { $anon_distinct_id: anonymous, plan: 'pro' }
  })).body.flags.sticky.enabled
  const [first, second] = [await findPair(decide, 'a'), await findPair(decide, 'b')]

  t.equal(await askWith({ distinct_id: first.user }, first.anonymous), first.value)
  t.equal(await valueOf(decide, first.user), first.value, 'it is kept')
  const ownField = { distinct_id: second.user, $anon_distinct_id: second.anonymous }
  t.equal(await askWith(ownField, first.anonymous), second.value)
  for (const nothing of [5, null, '', {}, [first.anonymous]]) {
    t.equal(await askWith({ distinct_id: 'c' }, nothing), await valueOf(decide, 'c'), `${JSON.stringify(nothing)} is no id`)
  }
  const kept = await decide.sql`
    SELECT distinct_id, hash_key FROM flag_hash_keys WHERE project_id = ${decide.projectId} ORDER BY distinct_id`
  t.same(kept, [first, second].map(({ user, anonymous }) => ({ distinct_id: user, hash_key: anonymous })))
})

t.test('the hash key is written once', async (t) => {
  const decide = await createTestDecide(t)
  await addFlags(decide, [STICKY])
  const { user, anonymous } = await findPair(decide, 'a')

  await valueOf(decide, user, anonymous)
  decide.reads.facts = 0
  for (let i = 0; i < 5; i++) await valueOf(decide, user, anonymous)

  t.same(decide.reads, { facts: 5, hashKeys: 1 })
})

t.test('two browsers that identify one user at the same time get one value', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  for (let round = 0; round < 10; round++) {
    const user = `user-${round}`
    const answers = await Promise.all(Array.from({ length: 6 }, async (_, i) => await valueOf(decide, user, `anon-${round}-${i}`)))
    t.equal(new Set(answers).size, 1)
  }
})

t.test('the value survives the merge of the two persons, for all of their ids', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  const { user, anonymous, value } = await findPair(decide, 'a')
  const anonymousPerson = await addPerson(decide, [anonymous])
  const person = await addPerson(decide, [user, 'user-a-old'])
  await valueOf(decide, user, anonymous)

  await decide.sql`UPDATE person_distinct_ids SET person_id = ${person} WHERE person_id = ${anonymousPerson}`
  await decide.sql`DELETE FROM persons WHERE id = ${anonymousPerson}`

  for (const id of [user, anonymous, 'user-a-old']) t.equal(await valueOf(decide, id), value, id)
})

t.test('the value survives kill -9 of the process that answered', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [STICKY])
  const { user, anonymous, value } = await findPair(decide, 'a')

  const env = { DATABASE_URL: decide.databaseUrl, CLICKHOUSE_URL: 'http://127.0.0.1:9/none' }
  // It listens before it has read keys and flags, and answers 503 meanwhile; balancers wait for the same.
  const startReady = async (): Promise<TierProcess> => {
    const started = await startTierProcess(t, { tier: 'api', env })
    await waitFor(async () => (await fetch(`${started.url}/_readiness`)).ok)
    return started
  }
  const first = await startReady()
  t.equal(await valueOf({ ...decide, url: first.url }, user, anonymous), value)
  first.child.kill('SIGKILL')
  await first.exited
  const second = await startReady()

  t.equal(await valueOf({ ...decide, url: second.url }, user), value)
})
