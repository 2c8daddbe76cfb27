import t from 'tap'
import { createPersonalKey } from '../../projects/personal-keys.ts'
import { addFlags, ask, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'

async function getDefinitions (decide: TestDecide, query = '&send_cohorts', headers: Record<string, string> = {}) {
  return await ask(decide, `/flags/definitions?token=${decide.projectKey}${query}`, undefined,
    { authorization: `Bearer ${decide.personalKey}`, ...headers })
}

function asks (key: string): object {
  return { key, type: 'flag', value: true, operator: 'flag_evaluates_to' }
}

t.test('serves what SDKs need to evaluate locally', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${projectId}, 'company', 0)`
  const filters = { type: 'AND', values: [{ type: 'AND', values: [{ key: 'plan', value: 'pro', type: 'person' }] }] }
  const [cohort] = await sql<Array<{ id: number }>>`
    INSERT INTO cohorts ${sql({ project_id: projectId, name: 'pro', filters: sql.json(filters) })} RETURNING id`
  const inCohort = { key: 'id', type: 'cohort', value: cohort!.id, operator: 'in' }
  await addFlags(decide, [
    { key: 'base', filters: { groups: [{ properties: [inCohort] }] } },
    { key: 'middle', filters: { groups: [{ properties: [asks('1')] }] } },
    { key: 'top', filters: { groups: [{ properties: [asks('middle')] }] } },
    { key: 'in-vain', filters: { groups: [{ properties: [asks('nobody')] }, {}] } },
    { key: 'circle', filters: { groups: [{ properties: [asks('circle')] }] } },
    { key: 'off', active: false }, { key: 'gone', deleted: true }, { key: 'bad', filters: [] }
  ])

  const { status, body } = await getDefinitions(decide)

  t.equal(status, 200)
  t.same(body.group_type_mapping, { 0: 'company' })
  t.same(body.cohorts, { [cohort!.id]: filters })
  const flags = Object.fromEntries(body.flags.map((flag: any) => [flag.key, flag]))
  t.same(Object.keys(flags), ['base', 'middle', 'top', 'off'], 'no malformed flags, and none that depend on themselves or on missing ones')
  t.match(flags.off, {
    id: Number, team_id: projectId, name: '', deleted: false, active: false, version: 1, ensure_experience_continuity: false
  })
  const chains = (key: string): unknown => flags[key].filters.groups[0].properties
    .map((property: any) => [property.key, property.dependency_chain])
  t.same(chains('middle'), [['base', ['base']]])
  t.same(chains('top'), [['middle', ['base', 'middle']]])

  const expanded = (await getDefinitions(decide, '')).body
  t.same(expanded.cohorts, {})
  t.same(expanded.flags[0].filters.groups[0].properties, filters.values[0]!.values)
  const older = await ask(decide, `/api/feature_flag/local_evaluation/?token=${decide.projectKey}&send_cohorts`, undefined,
    { authorization: `Bearer ${decide.personalKey}` })
  t.same(older.body, body)
})

t.test('flags that depend on all before them are listed once each, however many ways lead there', async (t) => {
  const decide = await createTestDecide(t)
  const keys = Array.from({ length: 32 }, (_, index) => `f${index}`)
  await addFlags(decide, keys.map((key, index) =>
    ({ key, filters: { groups: [{ properties: keys.slice(0, index).map(asks) }] } })))
  const { flags } = (await getDefinitions(decide)).body
  t.same(flags.at(-1).filters.groups[0].properties.at(-1).dependency_chain, keys.slice(0, -1))
})

t.test('leaves out what SDKs would decide otherwise: early access, and conditions about somebody else than they count by', async (t) => {
  const decide = await createTestDecide(t)
  await decide.sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (${decide.projectId}, 'company', 0)`
  const optedIn = { key: '$feature_enrollment/older', value: ['true'], operator: 'exact', type: 'person' }
  const plan = { key: 'plan', value: 'pro', type: 'person' }
  const size = { key: 'size', value: 5, operator: 'gt', type: 'group', group_type_index: 0 }
  const byGroup = { aggregation_group_type_index: 0 }
  await addFlags(decide, [
    { key: 'enrolled', filters: { groups: [], feature_enrollment: true } },
    { key: 'older', filters: { groups: [], super_groups: [{ properties: [optedIn] }] } },
    { key: 'mixed', filters: { ...byGroup, groups: [{ aggregation_group_type_index: null }] } },
    { key: 'of-two-groups', filters: { ...byGroup, groups: [{ aggregation_group_type_index: 1 }] } },
    { key: 'person-of-group', filters: { ...byGroup, groups: [{ properties: [plan] }] } },
    { key: 'group-of-person', filters: { groups: [{ properties: [size] }] } },
    { key: 'plain', filters: { groups: [{ properties: [plan] }, { ...byGroup, properties: [size] }], super_groups: [], feature_enrollment: false } },
    { key: 'by-group', filters: { ...byGroup, groups: [{ properties: [size, { ...plan, type: 'group', group_type_index: 0 }] }] } },
    { key: 'off', active: false, filters: { groups: [], feature_enrollment: true } }
  ])

  const { body } = await getDefinitions(decide)

  t.same(body.flags.map(({ key }: { key: string }) => key), ['plain', 'by-group', 'off'])
})

t.test('answers 304 until something changes', async (t) => {
  const decide = await createTestDecide(t)
  await addFlags(decide, [{ key: 'a' }])

  const first = await getDefinitions(decide)
  const etag = first.headers.get('etag')!
  t.match(etag, /^W\/"/)
  t.equal(first.headers.get('cache-control'), 'private, must-revalidate')
  const again = await getDefinitions(decide, '&send_cohorts', { 'if-none-match': etag })
  t.equal(again.status, 304)
  t.equal(again.headers.get('etag'), etag)
  t.equal((await getDefinitions(decide, '&send_cohorts', { 'if-none-match': etag.slice(2) })).status, 304)
  await addFlags(decide, [{ key: 'b' }])
  t.equal((await getDefinitions(decide, '&send_cohorts', { 'if-none-match': etag })).status, 200)
})

t.test('finds the project by its key in a header, as posthog-rs names it', async (t) => {
  const decide = await createTestDecide(t)
  const other = await decide.inNewProject()
  await addFlags(other, [{ key: 'of-the-other' }])
  const read = async (projectKey: string): Promise<unknown> => {
    const headers = { authorization: `Bearer ${decide.personalKey}`, 'x-posthog-project-api-key': projectKey }
    const { body } = await ask(decide, '/flags/definitions/?send_cohorts', undefined, headers)
    return body.flags?.map(({ key }: { key: string }) => key) ?? body.code
  }

  t.same(await read(decide.projectKey), [])
  t.same(await read(other.projectKey), ['of-the-other'])
  t.equal(await read('phc_nobody'), 'invalid_api_key')
})

t.test('requires a personal key that may read flags of this project', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  const [other] = await sql<Array<{ id: number }>>`INSERT INTO projects (name) VALUES ('Other') RETURNING id`
  const makeKey = async (scopes: string[], projectIds: number[] | null): Promise<string> => {
    const { key } = await createPersonalKey(sql, { email: 'ann@example.com', label: '', scopes, projectIds, expiresAt: null })
    await decide.refresh()
    return key
  }
  const status = async (authorization: string): Promise<number> =>
    (await getDefinitions(decide, '', { authorization })).status

  t.equal(await status('Bearer phx_wrong'), 401)
  t.equal(await status('Basic x'), 401)
  t.equal(await status(`Bearer ${await makeKey(['experiment:read'], null)}`), 403)
  t.equal(await status(`Bearer ${await makeKey(['feature_flag:read'], [other!.id])}`), 403)
  t.equal(await status(`Bearer ${await makeKey(['feature_flag:write'], [projectId])}`), 200)
  t.match(await ask(decide, `/flags/definitions?token=${decide.projectKey}`), { status: 401, body: { code: 'not_authenticated' } })
  t.match(await ask(decide, '/flags/definitions?token=phc_x', undefined, { authorization: `Bearer ${decide.personalKey}` }),
    { status: 401, body: { code: 'invalid_api_key' } })
})
