import { randomUUID } from 'node:crypto'
import { Kvm } from '@nats-io/kv'
import type { Test } from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { INGEST_BUCKET, presenceKey } from '../../schema/wire/ingest-presence.ts'
import type { Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { type ContractSystem, DATE_TIME, insertEvent, insertProperty } from './contract-client.ts'

/** Sections 4, 5, 7 and 9: what all of management shares. */
export async function walkManagement (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('4 Paths are answered with and without a trailing slash', async (t) => {
    for (const path of ['experiments', 'property_definitions', 'event_definitions', 'feature_flags']) {
      t.same((await client.call(t, 'GET', `~/${path}/`)).body.results, (await client.call(t, 'GET', `~/${path}`)).body.results, path)
    }
  })

  await t.test('5 Authentication with a personal API key', async (t) => {
    const ask = async (authorization: string | null): Promise<unknown> =>
      await client.call(t, 'GET', '~/experiments/', undefined, { authorization })

    t.match(await ask(`Bearer ${stack.personalApiKey}`), { status: 200 })
    t.match(await ask('Bearer phx_wrong'), { status: 401, body: { type: 'authentication_error', code: 'invalid_personal_api_key' } })
    t.match(await ask(`Bearer ${stack.projectApiKey}`), { status: 401, body: { code: 'invalid_personal_api_key' } })
    t.match(await ask(null), { status: 401, body: { type: 'authentication_error', code: 'not_authenticated' } })
    t.equal((await client.call(t, 'GET', '/api/projects/99/experiments')).status, 404)
  })

  await t.test('7 Errors name the field', async (t) => {
    const eventId = await insertEvent(stack, 'wrong')
    const propertyId = await insertProperty(stack, 'wrong')
    const { body: { id } } = await client.call(t, 'POST', '~/experiments', { name: 'Wrong', feature_flag_key: 'wrong' })
    const cases: [method: string, path: string, body: unknown, status: number, attr: string | null][] = [
      ['GET', '~/event_definitions?limit=abc', undefined, 400, 'limit'],
      ['GET', '~/event_definitions?limit=-1', undefined, 400, 'limit'],
      ['GET', '~/event_definitions?offset=1000000000000', undefined, 400, 'offset'],
      ['GET', '~/event_definitions/7', undefined, 400, 'id'],
      ['GET', `~/event_definitions/${randomUUID()}`, undefined, 404, null],
      ['PATCH', `~/event_definitions/${eventId}`, { tags: 'one' }, 400, 'tags'],
      ['PATCH', `~/event_definitions/${eventId}`, { created_at: 'soon' }, 400, 'created_at'],
      ['PATCH', `~/event_definitions/${eventId}`, { name: 'n'.repeat(401) }, 400, 'name'],
      ['PATCH', `~/event_definitions/${eventId}`, { name: 'n'.repeat(1_048_577) }, 413, 'body'],
      ['PATCH', `~/property_definitions/${propertyId}`, { property_type: 'Duration' }, 400, 'property_type'],
      ['PATCH', `~/property_definitions/${propertyId}`, { unknown: 1 }, 400, 'unknown'],
      ['PATCH', `~/property_definitions/${propertyId}`, 'text', 400, 'body'],
      ['GET', '~/property_definitions?type=session', undefined, 400, 'type'],
      ['POST', '~/experiments', {}, 400, 'name'],
      ['POST', '~/experiments', { name: 'n' }, 400, 'feature_flag_key'],
      ['PATCH', `~/experiments/${id}`, { start_date: '2026-01-02', end_date: '2026-01-01' }, 400, 'end_date'],
      ['PATCH', `~/experiments/${id}`, { unknown: 1 }, 400, 'unknown'],
      ['GET', `~/experiments/${id}/results`, undefined, 400, 'start_date'],
      ['GET', '~/experiments/99999', undefined, 404, null]
    ]

    for (const [method, path, body, status, attr] of cases) {
      const answer = await client.call(t, method, path, body)
      t.match(answer, { status, body: { type: /^(validation_error|invalid_request)$/, code: String, detail: String, attr } }, `${method} ${path} ${attr}`)
      t.same(Object.keys(answer.body).sort(), ['attr', 'code', 'detail', 'type'])
    }
  })

  await t.test('7 Requests that are too long get an error in the same shape', async (t) => {
    const names = (count: number): string => encodeURIComponent(JSON.stringify(Array.from({ length: count }, (_, n) => `event ${n}`)))

    t.match(await client.call(t, 'GET', `~/property_definitions?event_names=${names(2000)}`), { status: 200 })
    t.match(await client.call(t, 'GET', `~/property_definitions?event_names=${names(5000)}`), {
      status: 431, body: { type: 'invalid_request', code: 'headers_too_large', attr: null }
    })
  })

  await t.test('9 The OpenAPI document is 3.1, complete, and can be browsed', async (t) => {
    const { document, operation } = client.openapi
    t.equal(document.openapi, '3.1.0')
    const operations = [
      'GET experiments', 'POST experiments', 'GET experiments/1', 'PATCH experiments/1', 'DELETE experiments/1',
      'GET experiments/1/results', 'GET experiments/1/secondary_results', 'GET experiments/1/plan', 'GET experiments/holdouts/1',
      'GET experiments/requires_flag_implementation',
      'GET property_definitions', 'GET property_definitions/x', 'PATCH property_definitions/x', 'DELETE property_definitions/x',
      'GET event_definitions', 'GET event_definitions/x', 'PATCH event_definitions/x', 'DELETE event_definitions/x',
      'GET dead_letters', 'GET dead_letters/groups', 'GET dead_letters/1', 'POST dead_letters/replay', 'POST dead_letters/purge'
    ]
    for (const line of operations) {
      const [method = '', path = ''] = line.split(' ')
      const found = operation(method, `/api/projects/1/${path}`)
      t.ok(found?.summary, line)
      t.ok(found?.security, `${line} asks for a key`)
    }
    const parameters = operation('GET', '/api/projects/1/property_definitions')?.parameters?.map(({ name }) => name) ?? []
    for (const name of [
      'event_names', 'excluded_properties', 'filter_by_event_names', 'group_type_index', 'is_feature_flag', 'is_numerical',
      'limit', 'offset', 'properties', 'search', 'type', 'project_id'
    ]) t.ok(parameters.includes(name), name)
    const page = await fetch(`${stack.url}/docs`)
    t.equal(page.status, 200)
    t.match(page.headers.get('content-type'), /text\/html/)
    t.notMatch(await page.text(), /https?:\/\/(?!127\.0\.0\.1)/, 'the page loads nothing from other hosts')
  })
}

/** What a script asks first. */
export async function walkAccount (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('Beyond the contract: the installation, SQL', async (t) => {
    t.match(await client.call(t, 'GET', '/api/status/'), { status: 200, body: { clients: { captures: 'answered' } } })
    t.match(await client.call(t, 'GET', '/api/watermark/'), { status: 200, body: { ingest: [{ spool_bytes: 0 }] } })
    await plantLostIngest(stack)
    // While it may be alive, it is not forgotten.
    await waitFor(async () => (await client.call(t, 'DELETE', '/api/watermark/ingest/lost/')).status === 204, { everyMs: 500 })
    const rule = { what: 'dead_letters', project_id: null, days: 36_500 }
    t.match(await client.call(t, 'POST', '/api/retention/', rule), { status: 200, body: { results: [rule] } })
    t.match(await client.call(t, 'GET', '/api/retention/'), { status: 200, body: { results: [rule] } })
    t.match(await client.call(t, 'POST', '/api/retention/', { ...rule, project_id: 1 }), { status: 400, body: { attr: 'project_id' } })
    t.match(await client.call(t, 'DELETE', '/api/retention/'), { status: 400, body: { code: 'required', attr: 'what' } })
    t.match(await client.call(t, 'DELETE', '/api/retention/?what=dead_letters'), { status: 204 })
    t.match(await client.call(t, 'GET', '/api/sql/tables/'), { status: 200, body: { results: [{ columns: [] }] } })
    await client.open(t, 'POST', '/api/sql/', { query: 'SELECT 1' })
    await client.open(t, 'POST', '/api/sql/download/', { query: 'SELECT 1', format: 'csv' })
  })

  await t.test('Beyond the contract: own user, projects', async (t) => {
    t.match(await client.call(t, 'GET', '/api/users/@me/'), { status: 200, body: { team: { id: 1 }, personal_api_key: { scopes: ['*'] } } })
    t.match(await client.call(t, 'GET', '/api/projects/'), { status: 200, body: { results: [{ id: 1, api_token: stack.projectApiKey }] } })
    t.match(await client.call(t, 'GET', '/api/projects/@current/'), { status: 200, body: { id: 1 } })
    t.match(await client.call(t, 'POST', '/api/projects/', { name: 'Second' }), { status: 201, body: { api_token: /^phc_/ } })
    t.match(await client.call(t, 'GET', '~/keys/'), { status: 200, body: { results: [{ api_key: stack.projectApiKey, expires_at: null }] } })
    t.match(await client.call(t, 'GET', '~/quota/'), { status: 200, body: { events_per_month: null, updated_at: null } })
    t.match(await client.call(t, 'PATCH', '~/quota/', { events_per_month: 5_000_000 }), { status: 200, body: { events_per_month: 5_000_000 } })
    t.match(await client.call(t, 'DELETE', '~/quota/'), { status: 204 })
    t.match(await client.call(t, 'GET', '~/usage/'), { status: 200, body: { results: { length: 30 } } })
    t.match(await client.call(t, 'PATCH', '~/', { name: 'Renamed' }), { status: 200, body: { name: 'Renamed', timezone: 'UTC' } })
    t.match(await client.call(t, 'POST', '~/rotate_key/', {}), { status: 200, body: { old_keys: [stack.projectApiKey] } })
    t.match(await client.call(t, 'POST', '/api/users/', { email: 'b@example.com' }), { status: 201, body: { keys: 0 } })
    t.match(await client.call(t, 'GET', '/api/users/'), { status: 200, body: { results: [{ keys: 1 }, { email: 'b@example.com' }] } })
    const role = { project_id: null, role: 'viewer' }
    const invited = await client.call(t, 'POST', '/api/invitations/', { email: 'c@example.com', roles: [role] })
    t.match(invited, { status: 201, body: { user: { roles: [role], disabled_at: null }, link: /#invitation=/, expires_at: DATE_TIME } })
    t.match(await client.call(t, 'GET', '/api/record/?object=invitations'), { status: 200, body: { results: [{ kind: 'create', object_id: String(invited.body.user.id) }] } })
    const password = 'of ten or more'
    const joined = await fetch(`${stack.url}/console/session`, {
      method: 'POST', headers: { 'millrace-console': '1', 'content-type': 'application/json' },
      body: JSON.stringify({ invitation: invited.body.link.split('=').at(-1), password })
    })
    const cookie = String(joined.headers.getSetCookie()[0]?.split(';')[0])
    const changed = await client.call(t, 'POST', '/api/users/@me/password/', { current_password: password, password: 'another of ten' }, { cookie })
    t.match(changed, { status: 200, body: { has_password: true } })
    await client.open(t, 'GET', '/api/record/export?kind=trim')
    t.match(await client.call(t, 'PATCH', `/api/users/${invited.body.user.id}/`, { disabled: true }), { status: 200, body: { disabled_at: DATE_TIME } })
    const created = await client.call(t, 'POST', '/api/personal_api_keys/', { label: 'ci', scopes: ['project:read'] })
    t.match(created, { status: 201, body: { value: /^phx_/ } })
    const { id } = created.body
    t.match(await client.call(t, 'GET', '/api/personal_api_keys/'), { status: 200, body: { count: 2 } })
    t.match(await client.call(t, 'POST', `/api/personal_api_keys/${id}/rotate/`, {}), { status: 201, body: { label: 'ci' } })
    t.match(await client.call(t, 'DELETE', `/api/personal_api_keys/${id}/`), { status: 204 })
  })
}

async function plantLostIngest (stack: Stack): Promise<void> {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger })
  const entry = { host: 'lost', folder: '/lost', version: '1', publishedThrough: Date.now(), inFlight: 0, spoolBytes: 0 }
  await (await new Kvm(connection).open(INGEST_BUCKET)).put(presenceKey('lost'), JSON.stringify(entry))
  await connection.close()
}
