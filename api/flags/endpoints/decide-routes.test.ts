import zlib from 'node:zlib'
import LzString from 'lz-string'
import t from 'tap'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createPersonalKey } from '../../projects/personal-keys.ts'
import { addFlags, ask, createTestDecide, type TestAnswer, type TestDecide } from '../../testing/create-test-decide.ts'

const VARIANTS = { variants: [{ key: 'red', rollout_percentage: 0 }, { key: 'blue', rollout_percentage: 100 }] }

const shared = await createTestDecide(t)

/** One flag of each kind: on, off, a variant with payload, one that asks for a property. */
async function addSomeFlags (decide: TestDecide): Promise<void> {
  await addFlags(decide, [
    { key: 'on', filters: { groups: [{}], payloads: { true: { a: 1 } } } },
    { key: 'off', filters: { groups: [] } },
    { key: 'color', filters: { groups: [{}], multivariate: VARIANTS, payloads: { blue: '"#00f"' } } },
    { key: 'pro', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] } },
    { key: 'gone', deleted: true },
    { key: 'paused', active: false }
  ])
}

t.test('decide answers versions 1 to 4 as the contract says', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)
  const body = { distinct_id: 'u1', person_properties: { plan: 'pro' } }
  const fixed = {
    config: { enable_collect_everything: true }, editorParams: {}, isAuthenticated: false,
    supportedCompression: ['gzip', 'gzip-js', 'lz64']
  }

  for (const path of ['/decide/', '/decide', '/decide/?v=1', '/decide?v=0', '/decide?v=x']) {
    const { status, body: answer } = await ask(decide, path, body)
    t.equal(status, 200)
    t.match(answer, fixed)
    t.same(answer.featureFlags, ['on', 'color', 'pro'], path)
    t.notOk('featureFlagPayloads' in answer)
  }
  const v2 = await ask(decide, '/decide/?v=2', body)
  t.match(v2.body, fixed)
  t.same(v2.body.featureFlags, { on: true, color: 'blue', pro: true })
  const v3 = await ask(decide, '/decide/?v=3', body)
  t.match(v3.body, { ...fixed, errorComputingFlags: false, errorsWhileComputingFlags: false })
  t.same(v3.body.featureFlags, { on: true, off: false, color: 'blue', pro: true, paused: false })
  t.same(v3.body.featureFlagPayloads, { on: { a: 1 }, color: '"#00f"' })
  const v4 = await ask(decide, '/decide/?v=4', body)
  t.match(v4.body, { ...fixed, flags: { color: { variant: 'blue' } }, errorsWhileComputingFlags: false })
  t.same((await ask(decide, '/decide/?v=99', body)).body.flags, v4.body.flags)
})

t.test('flags answers the details of each flag', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)

  const { status, headers, body } = await ask(decide, '/flags/?v=2', { distinct_id: 'u1', person_properties: { plan: 'free' } })

  t.equal(status, 200)
  t.match(headers.get('content-type'), 'application/json; charset=utf-8')
  t.match(body, { errorsWhileComputingFlags: false, requestId: /^[0-9a-f-]{36}$/, evaluatedAt: Number })
  t.same(Object.keys(body.flags), ['on', 'off', 'color', 'pro', 'paused'])
  t.match(body.flags.color, {
    key: 'color',
    enabled: true,
    variant: 'blue',
    reason: { code: 'condition_match', condition_index: 0, description: 'Matched condition set 1' },
    metadata: { id: Number, version: 1, description: null, payload: '"#00f"', has_experiment: false }
  })
  t.equal(body.flags.on.metadata.payload, '{"a":1}')
  t.match(body.flags.pro, { enabled: false, variant: null, reason: { code: 'no_condition_match', condition_index: 0 } })
  t.notOk('failed' in body.flags.pro)
  t.match(body.flags.paused, { enabled: false, reason: { code: 'flag_disabled', condition_index: null } })
})

t.test('flags answers its older version and the configuration when asked', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)
  const body = { distinct_id: 'u1', person_properties: { plan: 'pro' } }

  const v1 = await ask(decide, '/flags?v=1', body)
  t.same(v1.body.featureFlags, { on: true, off: false, color: 'blue', pro: true, paused: false })
  t.notOk('supportedCompression' in v1.body)
  t.match((await ask(decide, '/flags?v=2&config=true', body)).body, { flags: {}, analytics: { endpoint: '/e/' } })
  t.match((await ask(decide, '/flags', body)).body, { flags: {}, supportedCompression: ['gzip', 'gzip-js', 'lz64'] })
  t.same((await ask(decide, '/flags?v=2', { ...body, disable_flags: true })).body.flags, {})
})

t.test('takes the body in every form that SDKs send', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)
  const json = JSON.stringify({ token: decide.projectKey, $distinct_id: 7, $properties: { plan: 'pro', note: '✓' } })
  const base64 = Buffer.from(json).toString('base64')
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const cases: Array<[string, string, Buffer | string, Record<string, string>]> = [
    ['text', '', json, { 'content-type': 'text/plain' }],
    ['no type', '', Buffer.from(json), {}],
    ['gzip by header', '', zlib.gzipSync(json), { 'content-encoding': 'gzip', 'content-type': 'application/json' }],
    ['gzip by query', '&compression=gzip-js', zlib.gzipSync(json), { 'content-type': 'text/plain' }],
    ['gzip by its bytes', '', zlib.gzipSync(json), { 'content-type': 'text/plain' }],
    ['base64 by query', '&compression=base64', `data=${encodeURIComponent(base64)}`, form],
    ['base64 as a whole', '', base64, { 'content-type': 'text/plain' }],
    ['form', '', `data=${encodeURIComponent(json)}`, form],
    ['lz64', '&compression=lz64', `data=${encodeURIComponent(LzString.compressToBase64(json))}`, form],
    ['NaN', '', json.replace('"✓"', 'NaN'), { 'content-type': 'application/json' }]
  ]

  for (const [name, query, body, headers] of cases) {
    const answer = await ask(decide, `/decide/?v=2${query}`, body, headers)
    t.same(answer.body.featureFlags, { on: true, color: 'blue', pro: true }, name)
  }
})

t.test('invalid input gets the error of the contract with its field', async (t) => {
  const decide = await shared.inNewProject()
  const body = { distinct_id: 'u1' }
  const cases: Array<[unknown, number, object]> = [
    [{}, 400, { type: 'validation_error', code: 'required', attr: 'distinct_id' }],
    [{ distinct_id: null }, 400, { code: 'required', attr: 'distinct_id' }],
    [{ distinct_id: {} }, 400, { code: 'invalid_input', attr: 'distinct_id' }],
    [{ ...body, groups: 'acme' }, 400, { code: 'invalid_input', attr: 'groups' }],
    [{ ...body, groups: ['acme'] }, 400, { attr: 'groups' }],
    [{ ...body, groups: { company: {} } }, 400, { attr: 'groups__company' }],
    [{ ...body, person_properties: [1] }, 400, { attr: 'person_properties' }],
    [{ ...body, group_properties: 5 }, 400, { attr: 'group_properties' }],
    [{ ...body, group_properties: { company: 'x' } }, 400, { attr: 'group_properties__company' }],
    [{ ...body, flag_keys_to_evaluate: 'on' }, 400, { attr: 'flag_keys_to_evaluate' }],
    [{ ...body, flag_keys: 'on' }, 400, { attr: 'flag_keys' }],
    [{ api_key: '', distinct_id: 'u1' }, 401, { type: 'authentication_error', code: 'invalid_api_key', attr: null }],
    [{ api_key: 'phc_unknown', distinct_id: 'u1' }, 401, { type: 'authentication_error', code: 'invalid_api_key' }],
    [{ api_key: 5 }, 401, { code: 'invalid_api_key' }],
    [{ api_key: 'phx_unknown', distinct_id: 'u1' }, 401, { code: 'invalid_personal_api_key' }],
    [{ api_key: decide.personalKey, distinct_id: 'u1' }, 400, { code: 'invalid_project', attr: 'project_id' }],
    ['[1]', 400, { type: 'validation_error', attr: 'body' }],
    ['{"api_key":', 400, { type: 'validation_error', code: 'invalid_json' }],
    ['', 400, { code: 'empty_body' }],
    [Buffer.from([0x1f, 0x8b, 8, 0, 1]), 400, { code: 'invalid_gzip' }]
  ]

  for (const path of ['/decide/?v=3', '/flags/?v=2']) {
    for (const [sent, status, error] of cases) {
      const answer = await ask(decide, path, sent)
      t.equal(answer.status, status, `${path} ${JSON.stringify(sent)}`)
      t.match(answer.body, error)
      t.type(answer.body.detail, 'string')
    }
  }
})

t.test('an empty array is an empty object, wherever PHP writes one for the other', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)
  const empty = { groups: [], person_properties: [], group_properties: [] }

  for (const fields of [empty, { ...empty, group_properties: { company: [] } }]) {
    const answer = await ask(decide, '/decide/?v=2', { distinct_id: 'u1', ...fields })
    t.match(answer, { status: 200, body: { featureFlags: { on: true, color: 'blue' } } })
  }
  t.match(await ask(decide, `/flags/?v=2&api_key=${decide.projectKey}`, '[]'), { status: 400, body: { attr: 'distinct_id' } })
})

t.test('a personal key works together with a project', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)

  const answer = await ask(decide, '/decide/?v=2', {
    api_key: decide.personalKey, project_id: decide.projectId, distinct_id: 'u1', person_properties: {}
  })

  t.same(answer.body.featureFlags, { on: true, color: 'blue' })
})

t.test('a project that does not exist is an error, not an empty set, however it is named', async (t) => {
  const decide = await shared.inNewProject()
  const { sql, personalKey } = decide
  await addSomeFlags(decide)
  const askAs = async (path: string, body?: object): Promise<TestAnswer> => await ask(decide, path,
    body === undefined ? undefined : { api_key: personalKey, distinct_id: 'u1', ...body },
    body === undefined ? { authorization: `Bearer ${personalKey}` } : {})
  const unknown: unknown[] = [
    999_999, '999999', 2 ** 40, 0, -1, 1.5, '0x1', '1e0', ' 1', '+1', '01', '1.0', '', true, [decide.projectId], { id: 1 }, 1e308
  ]
  const invalid = { status: 400, body: { type: 'validation_error', code: 'invalid_project', attr: 'project_id' } }

  for (const id of unknown) {
    for (const path of ['/decide/?v=3', '/flags/?v=2']) t.match(await askAs(path, { project_id: id }), invalid, `${path} ${JSON.stringify(id)}`)
    if (Array.isArray(id)) continue
    const query = `project_id=${encodeURIComponent(String(id))}`
    t.match(await askAs(`/flags/?v=2&${query}`, {}), invalid, query)
    for (const path of ['/flags/definitions', '/api/feature_flag/local_evaluation']) t.match(await askAs(`${path}?${query}`), invalid, `${path} ${query}`)
  }
  t.match(await askAs(`/flags/definitions?project_id=${decide.projectId}&project_id=${decide.projectId}`), invalid, 'twice')
  t.match(await askAs(`/flags/definitions?token=${decide.projectKey}&token=${decide.projectKey}`), { status: 401, body: { code: 'invalid_api_key' } })
  t.match(await askAs(`/flags/definitions?project_id=${decide.projectId}`), { status: 200, body: { flags: { length: 5 } } })

  const { key: restricted } = await createPersonalKey(sql, {
    email: 'ann@example.com', label: 'one', scopes: ['*'], projectIds: [decide.projectId], expiresAt: null
  })
  await decide.refresh()
  t.equal((await ask(decide, '/flags/?v=2', { api_key: restricted, distinct_id: 'u1' })).status, 200)
  await sql`DELETE FROM projects WHERE id = ${decide.projectId}`
  await decide.refresh()
  t.match(await askAs('/flags/?v=2', { project_id: decide.projectId }), invalid, 'deleted')
  t.match(await ask(decide, '/flags/?v=2', { api_key: restricted, distinct_id: 'u1' }), invalid, 'deleted, the only one of the key')
  t.match(await ask(decide, '/flags/definitions', undefined, { authorization: `Bearer ${restricted}` }), invalid)
  t.match(await ask(decide, '/flags/?v=2', { distinct_id: 'u1' }), { status: 401, body: { code: 'invalid_api_key' } }, 'deleted, by its key')
})

t.test('a project that was created just now is known', async (t) => {
  const decide = await shared.inNewProject()
  const [project] = await decide.sql<Array<{ id: number }>>`INSERT INTO projects (name) VALUES ('New') RETURNING id`

  await waitFor(async () => (await ask(decide, '/flags/?v=2', {
    api_key: decide.personalKey, project_id: project!.id, distinct_id: 'u1'
  })).status === 200)
})

t.test('a megabyte of overrides is answered, a body over the limit is refused', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)
  const note = 'x'.repeat(1_000_000)

  t.equal((await ask(decide, '/flags/?v=2', { distinct_id: 'u', person_properties: { note, plan: 'pro' } })).body.flags.pro.enabled, true)
  t.equal((await ask(decide, '/flags/?v=2', { distinct_id: 'u', note: note.repeat(5) })).status, 413)
  const bomb = zlib.gzipSync(JSON.stringify({ api_key: decide.projectKey, note: note.repeat(20) }))
  t.match(await ask(decide, '/flags/?v=2', bomb), { status: 413, body: { type: 'validation_error', code: 'body_too_large' } })
  const many = { distinct_id: 'u', person_properties: { list: Array(40_000).fill(1) } }
  t.match(await ask(decide, '/flags/?v=2', many), { status: 413, body: { type: 'validation_error', code: 'body_too_large' } })
})

t.test('every origin is allowed', async (t) => {
  const decide = await shared.inNewProject()
  const origin = 'https://shop.example'
  const allowed = { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' }
  const requested = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type,x-a' }

  const preflight = await fetch(`${decide.url}/flags/?v=2`, { method: 'OPTIONS', headers: requested })
  t.equal(preflight.status, 204)
  t.match(Object.fromEntries(preflight.headers), {
    ...allowed, 'access-control-allow-headers': 'content-type,x-a', 'access-control-allow-methods': /POST/, allow: /POST/
  })
  t.match(Object.fromEntries((await ask(decide, '/decide', { distinct_id: 'u' }, { origin })).headers), allowed)
  t.match(Object.fromEntries((await ask(decide, '/decide', {}, { origin })).headers), allowed, 'errors too')
  t.match((await ask(decide, '/flags/')).body, { supportedCompression: ['gzip', 'gzip-js', 'lz64'], isAuthenticated: false })
  t.equal((await fetch(`${decide.url}/flags/`, { method: 'HEAD' })).status, 200)
})

t.test('only the flags that are asked for are answered, and those of another runtime not even then', async (t) => {
  const decide = await shared.inNewProject()
  await addFlags(decide, [
    { key: 'any' }, { key: 'web', evaluation_runtime: 'client' }, { key: 'backend', evaluation_runtime: 'server' }
  ])
  const keys = async (runtime: string): Promise<string[]> => Object.keys((await ask(decide, '/flags/?v=2', {
    distinct_id: 'u', evaluation_runtime: runtime, flag_keys_to_evaluate: ['web', 'backend', 'nope']
  })).body.flags)

  t.same(await keys('all'), ['web', 'backend'])
  t.same(await keys('server'), ['backend'])
  t.same(await keys('client'), ['web'])
})

t.test('evaluations are counted by flag and value', async (t) => {
  const decide = await shared.inNewProject()
  await addSomeFlags(decide)

  for (let i = 0; i < 3; i++) await ask(decide, '/flags/?v=2', { distinct_id: `u${i}`, person_properties: { plan: 'x' } })

  const text = await decide.metrics.registry.metrics()
  t.match(text, new RegExp(`flag_evaluations_total\\{project="${decide.projectId}",flag="color",value="blue"\\} 3`))
  t.match(text, /flag="off",value="false"\} 3/)
})
