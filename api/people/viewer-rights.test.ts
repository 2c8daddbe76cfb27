/** What a viewer, and somebody who looks at a link, may not see or find out. */
import t, { type Test } from 'tap'
import { hashPersonalKey } from '../../schema/key-text.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'
import { callWith, type Client, everywhere, joinAs, logIn, PASSWORD } from '../testing/people-clients.ts'

const whole = await createTestApi(t)

t.test('a viewer sees no address of a person in any answer, unless allowed', async (t) => {
  const api = await whole.inNewProject()
  await plantMails(t, api)
  const paths = await readablePaths(api)
  const look = async (person: Client): Promise<string[]> => {
    const shown: string[] = []
    for (const path of paths) {
      const { body } = await person.call('GET', path)
      const next = new URL((await person.call('GET', `${path}?limit=1`)).body?.next ?? 'none:').searchParams
      const texts = [JSON.stringify(body ?? ''), Buffer.from(next.get('after') ?? '', 'base64url').toString()]
      if (texts.some((text) => text.includes('secret@person.example'))) shown.push(path)
    }
    return shown
  }

  t.same(await look(await joinAs(api, 'vi@example.com', everywhere('viewer'))), [])
  const allowed = await look(await joinAs(api, 'al@example.com', [{ project_id: null, role: 'viewer', sees_persons: true }]))
  t.ok(allowed.some((path) => path.includes('/persons')) && allowed.some((path) => path.includes('/remote_config')), allowed.join(' '))
  const vi = await logIn(api, { email: 'vi@example.com', password: PASSWORD })
  t.match(await vi.call('GET', '~/feature_flags'), { body: { results: [{ created_by: { email: 'ann@example.com' } }] } }, 'authors are shown')
  t.match(await vi.call('POST', '/api/sql', { query: 'SELECT 1' }), { status: 403 })
  const { body: { value } } = await vi.call('POST', '/api/personal_api_keys', { label: 'own', scopes: ['feature_flag:read'] })
  for (const path of ['/flags/definitions', '/api/feature_flag/local_evaluation']) {
    for (const named of [`project_id=${api.projectId}`, `token=${api.projectKey}`]) t.match(await callWith(api, value, 'GET', `${path}?${named}`), { status: 403 }, path)
  }
})

t.test('a viewer learns no address letter by letter', async (t) => {
  const api = await whole.inNewProject()
  await plantMails(t, api)
  const vi = await joinAs(api, 'vi2@example.com', everywhere('viewer'))
  const { paths } = (await api.call('GET', '/api/schema')).body as { paths: Record<string, { get?: { parameters?: { name: string }[] } }> }
  const searched = Object.entries(paths).filter(([path, { get }]) => path.includes('{project_id}') && get?.parameters?.some(({ name }) => name === 'search'))
    .map(([path]) => path.replace('/api/projects/{project_id}', '~'))
  const found: string[] = []
  for (const path of searched) {
    const count = async (by: Pick<Client, 'call'>, query: string): Promise<number> => {
      const { status, body } = await by.call('GET', `${path}?group_type_index=0&${query}`)
      return status === 200 ? body.count : 0
    }
    if (await count(api, 'search=secret') > 0) found.push(path)
    t.equal(await count(vi, 'search=secret'), 0, path)
  }
  for (const list of ['boards', 'event_definitions', 'experiments', 'feature_flags', 'questions', 'saved_queries']) t.ok(found.includes(`~/${list}`), list)
  t.match(await vi.call('GET', '~/event_definitions?search=mail+%40'), { status: 200, body: { count: 1, results: [{ name: 'mail to ***@***' }] } }, 'names are searched as they are shown')
  for (const list of ['boards', 'cohorts', 'event_definitions', 'event_definitions?ordering=-name', 'event_definitions?ordering=volume_30_day', 'event_schemas', 'property_definitions', 'questions', 'saved_queries']) {
    const names: string[] = (await vi.call('GET', `~/${list}`)).body.results.map(({ name, event }: { name?: string, event?: string }) => name ?? event)
    const sorted = names.toSorted()
    t.same(names, list.endsWith('-name') ? sorted.reverse() : sorted, `${list} is in the order of what it shows`)
    t.ok(names.length > 1 && names.some((name) => name.endsWith('***@***')), list)
  }
  const after = Buffer.from(JSON.stringify(['name', 'mail to s'])).toString('base64url')
  t.match(await vi.call('GET', `~/event_definitions?after=${after}`), { status: 400, body: { attr: 'after' } })
  const refused: Array<[string, string]> = [
    ['event_definitions?search=secret%40person.example', 'search'],
    ['property_definitions?event_names=%5B%22mail+to+secret%40person.example%22%5D', 'event_names'],
    ['property_definitions?properties=%5B%22secret%40person%5Cu002Eexample%22%5D', 'properties'],
    [`experiments/holdouts/1?metric=${encodeURIComponent('{"kind":"count","event":"paid","where":[{"key":"email","operator":"icontains","value":"s"}]}')}`, 'metric__where__0__key']
  ]
  for (const [path, attr] of refused) t.match(await vi.call('GET', `~/${path}`), { status: 403, body: { attr, detail: /sees_persons/ } }, path)

  const ofPerson = { event: 'paid', where: [{ key: 'plan', type: 'person', operator: 'icontains', value: 's' }] }
  const seen = { event: 'seen' }
  const where = (condition: object): object => ({ kind: 'trend', series: [{ event: null, where: [condition] }] })
  const asked: Array<[object, string]> = [
    [{ kind: 'trend', series: [seen, ofPerson], formula: 'A / B' }, 'series__1__where__0__key'],
    [{ kind: 'trend', series: [seen], breakdown: { type: 'person', property: 'plan' } }, 'breakdown__property'],
    [{ kind: 'funnel', steps: [seen, ofPerson] }, 'steps__1__where__0__key'],
    [{ kind: 'funnel', steps: [seen, { event: 'paid' }], exclude: [ofPerson] }, 'exclude__0__where__0__key'],
    [{ kind: 'retention', start: seen, returning: ofPerson }, 'returning__where__0__key'],
    [{ kind: 'lifecycle', activity: ofPerson }, 'activity__where__0__key'],
    [{ kind: 'paths', to: ofPerson }, 'to__where__0__key'],
    ...['email', '$user_email', 'Email Address', '$set', '$set_once', 'distinct_id', '$anon_distinct_id', 'alias'].map((key): [object, string] => [where({ key, operator: 'starts_with', value: 's' }), 'series__0__where__0__key']),
    [where({ key: 'contact', value: ['a', 'secret@person.example'] }), 'series__0__where__0__value__1'],
    [{ kind: 'trend', series: [{ event: 'mail to secret@person.example' }] }, 'series__0__event'],
    [{ kind: 'trend', series: [seen], breakdown: { property: 'email' } }, 'breakdown__property'],
    [{ kind: 'trend', series: [{ ...seen, measure: 'sum', property: 'email' }] }, 'series__0__property']
  ]
  const al = await joinAs(api, 'al2@example.com', [{ project_id: null, role: 'viewer', sees_persons: true }])
  for (const [asking, field] of asked) {
    const definition = { version: 1, ...asking }
    t.match(await vi.call('POST', '~/questions/answer', { definition }), { status: 403, body: { code: 'permission_denied', attr: `definition__${field}`, detail: /sees_persons/ } }, JSON.stringify(asking))
    t.match(await al.call('POST', '~/questions/answer', { definition }), { status: 503 }, 'only ClickHouse is missing')
    t.match(await vi.call('POST', '~/questions/persons', { definition, cell: {} }), { status: 403 })
  }
  t.match(await vi.call('POST', '~/questions/answer', { definition: { version: 1, ...where({ key: 'plan', value: 'pro' }) } }), { status: 503 })
  for (const path of ['questions', 'cohorts', 'feature_flags', 'experiments', 'alerts', 'exports', 'boards']) t.match(await vi.call('POST', `~/${path}`, {}), { status: 403 }, path)
})

t.test('a viewer guesses no condition of a flag', async (t) => {
  const api = await whole.inNewProject()
  await plantMails(t, api)
  const [vi, al] = [await joinAs(api, 'vi3@example.com', everywhere('viewer')), await joinAs(api, 'al3@example.com', [{ project_id: null, role: 'viewer', sees_persons: true }])]
  const draft = { key: 'probe', filters: { groups: [{ properties: [{ key: 'email', type: 'person', operator: 'icontains', value: 's' }], rollout_percentage: 100 }] } }
  const test = async (by: Client, asked: object) => await by.call('POST', '~/feature_flags/test', { flag_keys: ['probe', 'for-one'], draft, ...asked })
  t.match(await test(vi, { distinct_id: 'Secret' }), { status: 200, body: { results: [{ value: false }, { value: false }] } }, 'a flag of their own finds nothing stored')
  t.match(await test(al, { distinct_id: 'secret@person.example' }), { body: { results: [{ value: true }, { value: true }] } })
  const guesses: Array<[object, string]> = [
    [{ distinct_id: 'secret@person.example' }, 'distinct_id'],
    [{ distinct_id: 'x', person_properties: { email: 'SECRET@person.example' } }, 'person_properties__email'],
    [{ distinct_id: 'x', person_properties: { email: ['secret@person.example'] } }, 'person_properties__email__0'],
    [{ distinct_id: 'x', person_properties: { 'secret@person.example': 1 } }, 'person_properties'],
    [{ distinct_id: 'x', groups: { team: 'secret@person.example' } }, 'groups__team'],
    [{ distinct_id: 'x', group_properties: { team: { email: 'secret@person.example' } } }, 'group_properties__team__email']
  ]
  for (const [asked, attr] of guesses) t.match(await test(vi, asked), { status: 403, body: { attr, detail: /sees_persons/ } }, attr)
})

t.test('SQL on boards needs the rights of SQL, which a role in one project does not give', async (t) => {
  const api = await whole.inNewProject()
  const query = await api.call('POST', '~/saved_queries', { name: 'all', query: 'SELECT distinct_id FROM events' })
  const board = await api.call('POST', '~/boards', { name: 'b', tiles: [{ kind: 'saved_query', id: query.body.id }] })
  t.equal(board.status, 201)
  const answer = `~/boards/${board.body.id}/answers/saved_query/${query.body.id}`
  const both = await joinAs(api, 'both@example.com', [{ project_id: null, role: 'viewer' }, { project_id: api.projectId, role: 'editor' }])
  t.match(await both.call('GET', answer), { status: 403 })
  t.equal((await both.call('POST', `~/boards/${board.body.id}/links`)).status, 201)
  t.same(await api.sql`SELECT saved_queries FROM board_links WHERE board_id = ${board.body.id}`, [{ saved_queries: [] }])
})

t.test('a link to a board shows no more than whoever made it may show now', async (t) => {
  const api = await whole.inNewProject()
  const gus = await joinAs(api, 'gus@example.com', everywhere('editor'))
  const { body: question } = await gus.call('POST', '~/questions', { name: 'q', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  const { body: query } = await gus.call('POST', '~/saved_queries', { name: 'q', query: 'SELECT distinct_id FROM events' })
  const { body: board } = await gus.call('POST', '~/boards', { name: 'b', tiles: [{ kind: 'question', id: question.id }, { kind: 'saved_query', id: query.id }] })
  const { body: { value } } = await gus.call('POST', `~/boards/${board.id}/links`)
  const look = async () => {
    const { status, body } = await callWith(api, value, 'GET', '/api/shared_board')
    return status === 200 ? body.tiles.map(({ kind }: { kind: string }) => kind) : status
  }
  const change = async (body: object) => await api.call('PATCH', `/api/users/${gus.id}`, body)
  const [{ id: target }] = await api.sql<[{ id: number }]>`INSERT INTO targets ${api.sql({ project_id: api.projectId, name: 'ops', kind: 'slack', url: 'http://example.com' })} RETURNING id`
  const { body: report } = await gus.call('POST', '~/alerts', { name: 'daily', about: { kind: 'board', id: board.id }, every: 'day', targets: [target] })
  for (const name of ['phl_a', 'phl_sql']) await api.sql`INSERT INTO report_pictures ${api.sql({ key_hash: hashPersonalKey(name), alert_id: report.id, shows_sql: name === 'phl_sql', png: Buffer.from(name) })}`
  const pictures = async () => await Promise.all(['phl_a', 'phl_sql', 'phl_other'].map(async (name) =>
    (await api.app.inject(`/api/shared_board/pictures/${name}`)).statusCode))

  t.same(await look(), ['question', 'saved_query'])
  t.same(await pictures(), [200, 200, 404])
  const { headers, body } = await api.app.inject('/api/shared_board/pictures/phl_a')
  t.match([headers, body], [{ 'content-type': 'image/png', 'cache-control': 'no-store' }, 'phl_a'])
  await change({ roles: [{ project_id: api.projectId, role: 'editor' }] })
  t.same(await look(), ['question'], 'no SQL any more')
  t.same(await pictures(), [200, 404, 404])
  await change({ roles: [{ project_id: api.projectId, role: 'viewer' }] })
  t.equal(await look(), 401)
  t.same(await pictures(), [404, 404, 404])
  await change({ roles: everywhere('editor') })
  t.same(await look(), ['question', 'saved_query'])
  await api.call('POST', '/api/users', { email: 'robot2@example.com' })
  const { key: ofRobot } = await createPersonalKey(api.sql, { email: 'robot2@example.com', label: 'made', scopes: ['*'], projectIds: null, expiresAt: null })
  await api.sql`UPDATE personal_api_keys SET made_by_users = ${[gus.id]} WHERE label = 'made' AND user_id = (SELECT id FROM users WHERE email = 'robot2@example.com')`
  await api.keys.refresh()
  const { body: { value: byKey } } = await callWith(api, ofRobot, 'POST', `~/boards/${board.id}/links`)
  const lookBy = async (link: string) => (await callWith(api, link, 'GET', '/api/shared_board')).status
  t.equal(await lookBy(byKey), 200)
  await change({ roles: [{ project_id: api.projectId, role: 'viewer' }] })
  t.equal(await lookBy(byKey), 401, 'as for the key that made it, the rights of its maker count')
  await change({ roles: everywhere('editor') })
  t.same(await pictures(), [200, 200, 404])
  await api.sql`UPDATE report_pictures SET created_at = now() - interval '31 days' WHERE shows_sql`
  t.same(await pictures(), [200, 404, 404])
  await api.sql`UPDATE report_pictures SET created_at = now()`
  t.match((await change({})).body.disabling_ends, { keys: 1, board_links: 2, sql_alerts: 1 })
  t.match((await change({ disabled: true })).body.disabling_ends, { keys: 0, board_links: 0, sql_alerts: 0 })
  t.equal(await look(), 401)
  t.same(await pictures(), [404, 404, 404])
  await change({ disabled: false })
  t.same([await look(), await lookBy(byKey)], [401, 401], 'enabling brings none back')
  t.same(await pictures(), [200, 404, 404], 'nor SQL')
  await api.call('DELETE', `~/alerts/${report.id}`)
  t.same(await pictures(), [404, 404, 404], 'they go with their alert')
})

async function plantMails (t: Test, api: TestApi): Promise<void> {
  const filters = { groups: [{ properties: [{ key: 'email', type: 'person', value: 'secret@person.example', operator: 'exact' }], rollout_percentage: 100 }], payloads: { true: '{"id": 1, "email": "secret@person.example", "first_name": "S"}' } }
  t.match(await api.call('POST', '~/feature_flags', { key: 'for-one', name: 'secret@person.example', filters }), { status: 201 })
  t.match(await api.call('POST', '~/cohorts', { name: 'secret@person.example', filters: { properties: { type: 'AND', values: filters.groups[0]!.properties } } }), { status: 201 })
  t.match(await api.call('POST', '~/saved_queries', { name: 'of secret@person.example', query: "SELECT 'secret@person.example'" }), { status: 201 })
  t.match(await api.call('POST', '~/questions', { name: 'of secret@person.example', definition: { kind: 'trend', version: 1, series: [{ event: 'paid', where: filters.groups[0]!.properties }] } }), { status: 201 })
  t.match(await api.call('POST', '~/boards', { name: 'of secret@person.example' }), { status: 201 })
  t.match(await api.call('POST', '~/experiments', { name: 'of secret@person.example', feature_flag_key: 'tried' }), { status: 201 })
  t.match(await api.call('POST', '~/event_schemas', { event: 'of secret@person.example', schema: {} }), { status: 201 })
  // Names as stored and names as masked sort these differently.
  await api.call('POST', '~/cohorts', { name: 'a', distinct_ids: [] })
  await api.call('POST', '~/saved_queries', { name: 'of a', query: 'SELECT 1' })
  await api.call('POST', '~/questions', { name: 'of a', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  await api.call('POST', '~/boards', { name: 'of a' })
  await api.call('POST', '~/event_schemas', { event: 'of a', schema: {} })
  await api.sql`INSERT INTO event_definitions (project_id, name) SELECT ${api.projectId}, unnest(ARRAY['mail to secret@person.example', 'mail to a', 'z'])`
  await api.sql`INSERT INTO property_definitions (project_id, type, name) SELECT ${api.projectId}, 'event', unnest(ARRAY['secret@person.example', 'a'])`
  await api.sql`
    WITH person AS (INSERT INTO persons (project_id, uuid, properties) VALUES (${api.projectId}, gen_random_uuid(), '{"email": "secret@person.example"}') RETURNING id)
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${api.projectId}, 'secret@person.example', id FROM person`
}

/** Every GET of the document, with ids that exist where a list has some. */
async function readablePaths (api: TestApi): Promise<string[]> {
  const { paths } = (await api.call('GET', '/api/schema')).body as { paths: Record<string, Record<string, unknown>> }
  return Object.entries(paths)
    .filter(([path, operations]) => 'get' in operations && path.startsWith('/api/') && !path.includes('/live'))
    .map(([path]) => path.replace('{project_id}', String(api.projectId)).replace('{key}', 'for-one').replaceAll(/\{\w+\}/g, '1'))
}
