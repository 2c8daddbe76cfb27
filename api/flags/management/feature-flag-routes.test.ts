import { PostHog } from 'posthog-node'
import t from 'tap'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createTestApi, send, type TestAnswer, type TestApi } from '../../testing/create-test-api.ts'

const VARIANTS = [{ key: 'control', name: '', rollout_percentage: 50 }, { key: 'test', name: '', rollout_percentage: 50 }]

const shared = await createTestApi(t)

async function create (api: TestApi, body: object): Promise<TestAnswer> {
  return await api.call('POST', '~/feature_flags/', body)
}

t.test('creates a flag from a key alone, and answers all of its fields', async (t) => {
  const api = await shared.inNewProject()

  const { status, body } = await create(api, { key: 'beta-feature' })

  t.equal(status, 201)
  t.match(body, {
    id: Number,
    team_id: api.projectId,
    name: '',
    key: 'beta-feature',
    filters: { groups: [] },
    deleted: false,
    active: true,
    ensure_experience_continuity: false,
    version: 1,
    created_by: { id: api.user.id, uuid: api.user.uuid, email: 'ann@example.com', first_name: 'Ann' },
    created_at: /^\d{4}-\d\d-\d\dT/
  })
})

t.test('creates, retrieves, updates and deletes', async (t) => {
  const api = await shared.inNewProject()
  const filters = {
    groups: [{ properties: [{ key: 'plan', value: ['pro'], operator: 'exact', type: 'person' }], rollout_percentage: 30, variant: 'test' }],
    multivariate: { variants: VARIANTS },
    payloads: { test: { color: 'blue' }, control: '"red"' }
  }
  const { body: created } = await create(api, { key: 'color', name: 'Color', filters, active: false, ensure_experience_continuity: true })
  const path = `~/feature_flags/${created.id}`

  t.same((await api.call('GET', `${path}/`)).body, created)
  t.same(created.filters, filters)
  const changed = await api.call('PATCH', path, { active: true, name: 'Colour' })
  t.match(changed, { status: 200, body: { active: true, name: 'Colour', version: 2, filters, ensure_experience_continuity: true } })
  t.match(await api.call('PATCH', path, changed.body), { status: 200, body: changed.body }, 'what was answered may be sent back')
  t.match(await api.call('DELETE', path), { status: 204, body: undefined })
  t.match(await api.call('GET', path), { status: 404, body: { type: 'invalid_request', code: 'not_found' } })
  t.match(await api.call('PATCH', path, { name: 'x' }), { status: 404 })
  t.match(await create(api, { key: 'color' }), { status: 201 }, 'the key of a deleted flag is free')
})

t.test('a PATCH with deleted deletes a flag', async (t) => {
  const api = await shared.inNewProject()
  const { body: flag } = await create(api, { key: 'f' })

  t.match(await api.call('PATCH', `~/feature_flags/${flag.id}`, { deleted: true }), { status: 200, body: { deleted: true, version: 2 } })
  t.match((await api.call('GET', '~/feature_flags')).body, { count: 0, results: [] })
})

t.test('lists a page, newest first, with links', async (t) => {
  const api = await shared.inNewProject()
  for (const key of ['a', 'b', 'c', 'd', 'e']) await create(api, { key, active: key !== 'c' })

  const first = await api.call('GET', '~/feature_flags/?limit=2')
  t.equal(first.body.count, 5)
  t.equal(first.body.previous, null)
  t.same(first.body.results.map(({ key }: { key: string }) => key), ['e', 'd'])
  const second = await api.call('GET', new URL(first.body.next).pathname + new URL(first.body.next).search)
  t.same(second.body.results.map(({ key }: { key: string }) => key), ['c', 'b'])
  t.match(second.body, { count: 5, next: String, previous: String })
  t.match((await api.call('GET', '~/feature_flags?limit=2&offset=4')).body, { next: null, results: [{ key: 'a' }] })
  t.match((await api.call('GET', '~/feature_flags?active=false')).body, { count: 1, results: [{ key: 'c' }] })
  t.match((await api.call('GET', '~/feature_flags?search=B')).body, { count: 1, results: [{ key: 'b' }] })
})

t.test('invalid input gets the error of the contract with its field', async (t) => {
  const api = await shared.inNewProject()
  await create(api, { key: 'taken' })
  const property = (fields: object): object => ({ key: 'f', filters: { groups: [{ properties: [{ key: 'a', type: 'person', ...fields }] }] } })
  const cases: Array<[object, string, string]> = [
    [{}, 'required', 'key'],
    [{ key: '' }, 'required', 'key'],
    [{ key: 5 }, 'invalid_input', 'key'],
    [{ key: 'not a key' }, 'invalid_key', 'key'],
    [{ key: 'taken' }, 'unique', 'key'],
    [{ key: 'f', active: 'yes' }, 'invalid_input', 'active'],
    [{ key: 'f', filters: [] }, 'invalid_input', 'filters'],
    [{ key: 'f', colour: 1 }, 'unknown_field', 'colour'],
    [{ key: 'f', evaluation_runtime: 'toaster' }, 'invalid_input', 'evaluation_runtime'],
    [{ key: 'f', name: 'a\0b' }, 'invalid_input', 'name'],
    [{ key: 'f', filters: { multivariate: { variants: VARIANTS.slice(1) } } }, 'invalid', 'filters__multivariate__variants'],
    [property({ operator: 'regex', value: '(' }), 'invalid_regex', 'filters__groups__0__properties__0__value'],
    [property({ operator: 'sounds_like', value: 'x' }), 'invalid_choice', 'filters__groups__0__properties__0__operator']
  ]

  for (const [body, code, attr] of cases) {
    t.match(await create(api, body), { status: 400, body: { type: 'validation_error', code, attr, detail: String } }, JSON.stringify(body))
  }
  t.match(await create(api, { key: 'taken' }), { body: { detail: 'There is already a feature flag with this key.' } })
  t.match(await api.call('GET', '~/feature_flags/99999999999'), { status: 400, body: { attr: 'id' } })
  t.match(await api.call('GET', '~/feature_flags/77'), { status: 404 })
})

t.test('flags that other flags depend on stay, and keep their key', async (t) => {
  const api = await shared.inNewProject()
  const { body: base } = await create(api, { key: 'base' })
  const dependent = { groups: [{ properties: [{ key: 'base', type: 'flag', value: true, operator: 'flag_evaluates_to' }] }] }
  const { body: top } = await create(api, { key: 'top', filters: dependent })
  const path = `~/feature_flags/${base.id}`

  t.match(await api.call('DELETE', path), { status: 400, body: { code: 'has_dependents', attr: 'deleted', detail: /top/ } })
  t.match(await api.call('PATCH', path, { key: 'new' }), { status: 400, body: { code: 'has_dependents', attr: 'key' } })
  const cycle = { groups: [{ properties: [{ key: 'top', type: 'flag', value: true }] }] }
  t.match(await api.call('PATCH', path, { filters: cycle }), { status: 400, body: { code: 'invalid', attr: 'filters__groups' } })
  t.match(await api.call('DELETE', `~/feature_flags/${top.id}`), { status: 204 })
  t.match(await api.call('DELETE', path), { status: 204 })
})

t.test('of two flags created at once with one key one is stored, and no dependency cycle is', async (t) => {
  const api = await shared.inNewProject()
  const made = await Promise.all([1, 2, 3, 4].map(async () => await create(api, { key: 'same' })))
  t.same(made.map(({ status }) => status).sort(), [201, 400, 400, 400])

  const { body: a } = await create(api, { key: 'a' })
  const { body: b } = await create(api, { key: 'b' })
  const ask = async (id: number, key: string): Promise<number> => (await api.call('PATCH', `~/feature_flags/${id}`,
    { filters: { groups: [{ properties: [{ key, type: 'flag', value: true }] }] } })).status
  t.same((await Promise.all([ask(a.id, 'b'), ask(b.id, 'a')])).sort(), [200, 400])
})

t.test('a flag with malformed filters in the database can be listed, switched off and repaired', async (t) => {
  const api = await shared.inNewProject()
  const [row] = await api.sql<Array<{ id: number }>>`
    INSERT INTO feature_flags (project_id, key, filters) VALUES (${api.projectId}, 'bad', '[1]') RETURNING id`
  const path = `~/feature_flags/${row!.id}`

  t.match(await api.call('GET', path), { status: 200, body: { key: 'bad' } })
  t.match(await api.call('PATCH', path, { active: false }), { status: 200 })
  t.match(await api.call('PATCH', path, { filters: { groups: [{}] }, active: true }), { status: 200, body: { filters: { groups: [{}] } } })
})

t.test('a written flag is answered by decide, and described', async (t) => {
  const api = await shared.inNewProject()
  const decide = async (): Promise<any> => (await send(api.app, {
    method: 'POST', url: '/decide/?v=3', payload: { api_key: api.projectKey, distinct_id: 'u1' }
  })).body
  const { body: flag } = await create(api, { key: 'f', filters: { groups: [{ rollout_percentage: 100 }] } })

  await waitFor(async () => (await decide()).featureFlags.f === true)
  await api.call('DELETE', `~/feature_flags/${flag.id}`)
  await waitFor(async () => !('f' in (await decide()).featureFlags))

  const { body: document } = await send(api.app, { method: 'GET', url: '/api/schema' })
  t.match(document.paths, { '/decide': { post: { summary: String } }, '/api/projects/{project_id}/feature_flags': { get: {}, post: {} } })
})

t.test('serves the payload of a flag as configuration', async (t) => {
  const api = await shared.inNewProject()
  await create(api, { key: 'limits', filters: { groups: [{}], payloads: { true: '{"max":5}' } } })

  const path = `/api/projects/@current/feature_flags/limits/remote_config?token=${api.projectKey}`
  t.match(await api.call('GET', path), { status: 200, body: '{"max":5}' })
})

t.test('posthog-node does not take an error of the remote configuration for a payload', async (t) => {
  const api = await shared.inNewProject()
  await create(api, { key: 'limits', filters: { groups: [{}], payloads: { true: '{"max":5}' } } })
  await create(api, { key: 'bare', filters: { groups: [{}] } })
  await create(api, { key: 'off', active: false, filters: { groups: [{}], payloads: { true: '1' } } })
  const host = await api.app.listen({ host: '127.0.0.1', port: 0 })
  const read = async (flag: string, personalApiKey = api.key, projectKey = api.projectKey): Promise<unknown> => {
    const client = new PostHog(projectKey, { host, personalApiKey, enableLocalEvaluation: false })
    return await client.getRemoteConfigPayload(flag).finally(async () => await client.shutdown())
  }

  t.same(await read('limits'), { max: 5 })
  t.equal(await read('bare'), null)
  for (const flag of ['nope', 'off']) await t.rejects(read(flag), SyntaxError, flag)
  await t.rejects(read('limits', 'phx_unknown'), SyntaxError, 'a key that is refused')
  await t.rejects(read('limits', api.key, 'phc_unknown'), SyntaxError, 'a project that is not found')
  t.match(await api.call('GET', '~/feature_flags/nope/remote_config'), {
    status: 404, body: undefined, headers: { 'millrace-error': 'not_found' }
  })
})
