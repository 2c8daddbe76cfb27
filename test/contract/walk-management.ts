import { Kvm } from '@nats-io/kv'
import { INGEST_BUCKET, presenceKey } from '../../schema/wire/ingest-presence.ts'
import { waitFor } from '../support/wait-for.ts'
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Test } from 'tap'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { hashPersonalKey } from '../../schema/key-text.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import type { Stack } from '../start-stack.ts'
import { type ContractSystem, DATE_TIME, insertEvent, insertProperty, typeOf, typesOf, UUID } from './contract-client.ts'

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

/** Sections 2.2, 2.3 and 4.1: experiments, with the user who created one and the flag it is linked to. */
export async function walkExperiments (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('2.2 User summary', async (t) => {
    const { body: { created_by: user } } = await client.call(t, 'POST', '~/experiments/', { name: 'By', feature_flag_key: 'by' })

    t.same(Object.keys(user).sort(), ['distinct_id', 'email', 'first_name', 'id', 'is_email_verified', 'uuid'])
    t.equal(typeOf(user.id), 'integer', 'id')
    t.match(user.uuid, UUID, 'uuid')
    t.equal(typeOf(user.distinct_id), 'string', 'distinct_id')
    t.equal(typeOf(user.first_name), 'string', 'first_name')
    t.match(user.email, /.+@.+/, 'email')
    t.equal(typeOf(user.is_email_verified), 'boolean', 'is_email_verified')
  })

  await t.test('2.3 Experiment and its linked flag', async (t) => {
    const written = {
      name: 'Whole', description: 'All fields', start_date: '2026-01-01T00:00:00.000Z', end_date: '2026-02-01T00:00:00.000Z',
      feature_flag_key: 'whole', parameters: { any: 'key' }, secondary_metrics: { any: { key: 1 } }, filters: { any: ['key'] },
      archived: true
    }

    const { body: experiment } = await client.call(t, 'POST', '~/experiments/', written)

    t.same(typesOf(experiment), {
      id: 'integer', name: 'string', description: 'string', start_date: 'string', end_date: 'string',
      feature_flag_key: 'string', feature_flag: 'object', parameters: 'object', secondary_metrics: 'object',
      filters: 'object', archived: 'boolean', created_by: 'object', created_at: 'string', updated_at: 'string'
    })
    for (const [field, value] of Object.entries(written)) t.same(experiment[field], value, `${field} is writable`)
    for (const field of ['created_at', 'updated_at']) t.match(experiment[field], DATE_TIME, field)
    t.same(typesOf(experiment.feature_flag), {
      id: 'integer', team_id: 'integer', name: 'string', key: 'string', filters: 'object', deleted: 'boolean',
      active: 'boolean', ensure_experience_continuity: 'boolean'
    })
  })

  await t.test('Saved queries: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/saved_queries/', { name: 'Example', query: 'SELECT 1', chart: { kind: 'bar' } })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/saved_queries/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/saved_queries/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/saved_queries/${created.id}/`, { description: 'Partial' }), {
      status: 200, body: { name: 'Example', description: 'Partial' }
    }, 'update')
    t.equal((await client.call(t, 'DELETE', `~/saved_queries/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Annotations: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/annotations/', { name: 'Release 2.3', at: '2026-11-20T10:00:00,5+01:00' })
    t.match({ status, created }, { status: 201, created: { at: '2026-11-20T09:00:00.500Z' } }, 'create')
    t.match(await client.call(t, 'POST', '~/annotations/', { name: 'Release 2.3', at: 'yesterday' }), { status: 400, body: { attr: 'at' } })
    t.match(await client.call(t, 'POST', '~/annotations/', { name: 'Release 2.3', at: '2026-11-20T09:00:00.500Z' }), { status: 400, body: { code: 'unique' } })

    t.match(await client.call(t, 'GET', '~/annotations/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/annotations/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/annotations/${created.id}/`, { name: 'Release 2.4' }), { status: 200, body: { name: 'Release 2.4', at: created.at } }, 'update')
    t.equal((await client.call(t, 'DELETE', `~/annotations/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Questions: every operation', async (t) => {
    const definition = { kind: 'trend', version: 1, series: [{ event: 'paid' }] }
    const { status, body: created } = await client.call(t, 'POST', '~/questions/', { name: 'Example', definition })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/questions/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/questions/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/questions/${created.id}/`, { description: 'Partial' }), {
      status: 200, body: { name: 'Example', description: 'Partial' }
    }, 'update')
    t.match(await client.call(t, 'GET', `~/questions/${created.id}/answer/`), { status: 200 }, 'answer')
    t.match(await client.call(t, 'POST', '~/questions/answer/', { definition }), { status: 200 }, 'answer a definition')
    const funnel = { kind: 'funnel', version: 1, steps: [{ event: 'seen' }, { event: 'paid' }] }
    t.match(await client.call(t, 'POST', '~/questions/persons/', { definition: funnel, cell: { step: 1 } }), { status: 200 }, 'persons of a funnel')
    t.equal((await client.call(t, 'DELETE', `~/questions/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Boards: every operation', async (t) => {
    const { body: { id: question } } = await client.call(t, 'POST', '~/questions/', { name: 'On a board', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
    const { status, body: created } = await client.call(t, 'POST', '~/boards/', { name: 'Example', tiles: [{ kind: 'question', id: question }] })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/boards/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/boards/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/boards/${created.id}/`, { description: 'Partial' }), { status: 200, body: { description: 'Partial' } }, 'update')
    t.match(await client.call(t, 'GET', `~/boards/${created.id}/answers/question/${question}/`), { status: 200, body: { name: 'On a board' } }, 'answer')
    const { body: link } = await client.call(t, 'POST', `~/boards/${created.id}/links/`, { expires_at: null })
    t.match(await client.call(t, 'GET', `~/boards/${created.id}/links/`), { status: 200, body: { results: [{ id: link.id }] } }, 'links')
    const byLink = { authorization: `Bearer ${link.value}` }
    t.match(await client.call(t, 'GET', '/api/shared_board/', undefined, byLink), { status: 200, body: { name: 'Example' } }, 'the board of a link')
    t.match(await client.call(t, 'GET', `/api/shared_board/answers/question/${question}/`, undefined, byLink), { status: 200, body: { question: { sql: '' } } }, 'its answer')
    t.equal((await client.call(t, 'DELETE', `~/boards/${created.id}/links/${link.id}/`)).status, 204, 'end a link')
    t.equal((await client.call(t, 'DELETE', `~/boards/${created.id}/`)).status, 204, 'delete')
    t.equal((await client.call(t, 'DELETE', `~/questions/${question}/`)).status, 204)
  })

  await t.test('Exports: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/exports/', { name: 'example', schedule: 'hour', target: { kind: 'folder' } })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/exports/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/exports/${created.id}/`), { status: 200, body: { id: created.id, target: created.target } }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/exports/${created.id}/`, { paused: true }), { status: 200, body: { paused: true } }, 'update')
    t.match(await client.call(t, 'POST', `~/exports/${created.id}/run/`, { from: '2026-01-01T00:00:00Z', to: '2026-01-01T02:00:00Z' }), {
      status: 200, body: { planned: 2 }
    }, 'run')
    t.match(await client.call(t, 'GET', `~/exports/${created.id}/windows/?limit=1&offset=0`), { status: 200, body: { count: 2 } }, 'windows')
    t.equal((await client.call(t, 'DELETE', `~/exports/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Targets: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/targets/', { name: 'Example', kind: 'webhook', url: 'http://127.0.0.1:9/hook?secret=1', events: ['paid'] })
    t.match([status, created], [201, { url: 'http://127.0.0.1:9/…', secret: undefined }], 'create')
    t.match(await client.call(t, 'GET', '~/targets/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/targets/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/targets/${created.id}/`, { ...created, description: 'Partial' }), { status: 200, body: { description: 'Partial' } }, 'update')
    t.match(await client.call(t, 'POST', `~/targets/${created.id}/secret/`), { status: 200, body: { secret: /^whsec_[A-Za-z0-9+/]{43}=$/ } }, 'secret')
    t.match(await client.call(t, 'POST', `~/targets/${created.id}/test/`), { status: 200, body: { delivered: false, error: /127\.0\.0\.1 is a loopback address/ } }, 'test')
    t.equal((await client.call(t, 'DELETE', `~/targets/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Alerts: every operation', async (t) => {
    const { body: { id: target } } = await client.call(t, 'POST', '~/targets/', { name: 'Of an alert', kind: 'mail', url: 'mailto:ops@example.com' })
    const { body: { id: question } } = await client.call(t, 'POST', '~/questions/', { name: 'Watched', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
    const watched = { about: { kind: 'question', id: question }, every: 'hour', condition: { is: 'above', value: 3 } }
    const { status, body: created } = await client.call(t, 'POST', '~/alerts/', { name: 'Example', ...watched, targets: [target] })
    t.equal(status, 201, 'create')
    t.match(await client.call(t, 'GET', '~/alerts/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/alerts/${created.id}/`), { status: 200, body: { name: 'Example', is_firing: false, ...watched } }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/alerts/${created.id}/`, { description: 'Partial' }), { status: 200, body: { description: 'Partial' } }, 'update')
    t.match(await client.call(t, 'GET', `~/alerts/${created.id}/windows/`), { status: 200, body: { results: [] } }, 'windows')
    await stack.sql`INSERT INTO report_pictures ${stack.sql({ key_hash: hashPersonalKey('phl_shown'), alert_id: created.id, shows_sql: false, png: Buffer.from('png') })}`
    await client.open(t, 'GET', '/api/shared_board/pictures/phl_shown')
    t.match(await client.call(t, 'POST', '~/alerts/dry_run/', watched), { status: 200, body: { windows: 720, results: Array } }, 'dry run')
    t.equal((await client.call(t, 'DELETE', `~/alerts/${created.id}/`)).status, 204, 'delete')
    t.equal((await client.call(t, 'DELETE', `~/questions/${question}/`)).status, 204)
    t.equal((await client.call(t, 'DELETE', `~/targets/${target}/`)).status, 204)
  })

  await t.test('Imports: every operation', async (t) => {
    const progress = { rows: 1, accepted: 1, rejected: 0, bytes_read: 9, events_per_second: 1, reasons: [] }
    const { status, body: { id } } = await client.call(t, 'POST', '~/imports/', {
      checkpoint: randomUUID(), source: 'files', mode: 'import', options: [], version: '0.1.0', files: [{ name: 'a.csv', bytes: 9 }], file_count: 1, bytes: 9
    })
    t.equal(status, 201, 'start')

    t.match(await client.call(t, 'GET', '~/imports/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id }] } }, 'list')
    const { body: { folder } } = await client.call(t, 'GET', '~/imports/files/')
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, 'a.csv'), 'event,distinct_id,timestamp\nseen,ann,2023-01-01\n')
    t.match(await client.call(t, 'GET', '~/imports/files/'), { status: 200, body: { files: [{ name: 'a.csv' }] } }, 'files')
    t.match(await client.call(t, 'POST', '~/imports/run/', { source: 'files', name: 'a.csv', dry_run: true }), { status: 201, body: { id: Number } }, 'run')
    t.match(await client.call(t, 'POST', `~/imports/${id}/stop/`), { status: 200, body: { id } }, 'stop')
    t.match(await client.call(t, 'POST', `~/imports/${id}/report/`, { state: 'running', progress }), { status: 200, body: { stop: true } }, 'report')
    t.match(await client.call(t, 'GET', `~/imports/${id}/`), { status: 200, body: { progress } }, 'retrieve')
    t.equal((await client.call(t, 'DELETE', `~/imports/${id}/`)).status, 409, 'delete a running one')
    t.equal((await client.call(t, 'POST', `~/imports/${id}/report/`, { state: 'interrupted', progress })).status, 200, 'report the end')
    t.equal((await client.call(t, 'DELETE', `~/imports/${id}/`)).status, 204, 'delete')
  })

  await t.test('4.1 Experiments: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/experiments/', { name: 'Example', feature_flag_key: 'example' })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/experiments/?limit=1&offset=0'), { status: 200, body: { results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/experiments/${created.id}/`, { description: 'Partial' }), {
      status: 200, body: { name: 'Example', description: 'Partial' }
    }, 'update')
    await client.call(t, 'PATCH', `~/experiments/${created.id}/`, {
      start_date: '2026-01-01', filters: { insight: 'FUNNELS', events: [{ id: 'paid' }] }, secondary_metrics: [{ kind: 'count', event: 'paid' }]
    })
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/results/`), {
      status: 200, body: { id: created.id, name: 'Example', result: { significance_code: 'not_enough_exposure' } }
    }, 'results')
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/secondary_results/`), {
      status: 200, body: { id: created.id, result: [{ control: null, test: null }] }
    }, 'secondary results')
    t.match(await client.call(t, 'GET', '~/experiments/requires_flag_implementation/'), {
      status: 200, body: { id: created.id, result: true }
    }, 'requires flag implementation')
    t.match(await client.call(t, 'GET', `~/experiments/${created.id}/plan/`), { status: 200, body: { people: 0, baseline: null } }, 'plan')
    const filters = { groups: [{ properties: [] }], holdout: { id: 7, exclusion_percentage: 10 } }
    await client.call(t, 'POST', '~/feature_flags/', { key: 'held', filters })
    t.match(await client.call(t, 'GET', '~/experiments/holdouts/7/?metric={"kind":"count","event":"paid"}'), {
      status: 200, body: { flags: ['held'], result: Object }
    }, 'holdout')
    t.equal((await client.call(t, 'GET', '~/experiments/holdouts/8/?metric={"kind":"count","event":"paid"}')).status, 404)
    for (const [query, attr] of [['', 'metric'], ['?metric={', 'metric'], ['?metric={"kind":"count","event":"paid"}&from=then', 'from']]) {
      t.match(await client.call(t, 'GET', `~/experiments/holdouts/7/${query}`), { status: 400, body: { attr } })
    }
    t.match(await client.call(t, 'DELETE', `~/experiments/${created.id}/`), { status: 204, body: undefined }, 'delete')
    t.equal((await client.call(t, 'GET', `~/experiments/${created.id}/`)).status, 404)
  })
}

/** What the product has beyond the contract: feature flags, dead letters, warnings, persons. */
export async function walkBeyondContract (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('Beyond the contract: feature flags, dead letters, persons', async (t) => {
    const filters = { groups: [{ properties: [], rollout_percentage: 100 }], payloads: { true: '{"a": 1}' } }
    const { status, body: { id } } = await client.call(t, 'POST', '~/feature_flags/', { key: 'beyond', filters })
    t.equal(status, 201)
    t.match(await client.call(t, 'GET', '~/feature_flags/?search=beyond'), { status: 200, body: { count: 1 } })
    t.match(await client.call(t, 'GET', `~/feature_flags/${id}/`), { status: 200, body: { key: 'beyond' } })
    t.match(await client.call(t, 'PATCH', `~/feature_flags/${id}/`, { name: 'n' }), { status: 200, body: { version: 2 } })
    t.match(await client.call(t, 'GET', `~/feature_flags/${id}/activity/`), {
      status: 200, body: { count: 2, results: [{ activity: 'updated', version: 2 }, { activity: 'created' }] }
    })
    t.match(await client.call(t, 'PATCH', `~/feature_flags/${id}/`, { name: 'late', version: 1 }), { status: 409, body: { code: 'conflict', attr: 'version' } })
    t.match(await client.call(t, 'GET', '~/feature_flags/beyond/remote_config/'), { status: 200, body: '{"a": 1}' })
    t.match(await client.call(t, 'POST', '~/feature_flags/test/', { distinct_id: 'me', flag_keys: ['beyond'] }), {
      status: 200, body: { results: [{ key: 'beyond', value: true, reason: { code: 'condition_match' } }] }
    })
    t.match(await client.call(t, 'DELETE', `~/feature_flags/${id}/`), { status: 204 })

    const { body: rule } = await client.call(t, 'POST', '~/rules/', { name: 'beyond', actions: [{ type: 'drop' }] })
    t.match(await client.call(t, 'GET', '~/rules/'), { status: 200, body: { results: [{ id: rule.id }] } })
    t.match(await client.call(t, 'GET', '~/rules/counts/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', `~/rules/${rule.id}/`), { status: 200, body: { version: 1, active_version: null } })
    t.match(await client.call(t, 'GET', `~/rules/${rule.id}/versions/`), { status: 200, body: { results: [{ version: 1 }] } })
    t.match(await client.call(t, 'PATCH', `~/rules/${rule.id}/`, { position: 3 }), { status: 200, body: { position: 3 } })
    t.match(await client.call(t, 'POST', `~/rules/${rule.id}/check/`, {}), { status: 200, body: { complete: true } })
    t.match(await client.call(t, 'DELETE', `~/rules/${rule.id}/`), { status: 204 })

    const { body: schema } = await client.call(t, 'POST', '~/event_schemas/', { event: 'beyond', schema: { required: ['plan'] } })
    t.match(await client.call(t, 'GET', '~/event_schemas/'), { status: 200, body: { results: [{ id: schema.id }] } })
    t.match(await client.call(t, 'GET', '~/event_schemas/counts/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', `~/event_schemas/${schema.id}/`), { status: 200, body: { version: 1, active_version: null } })
    t.match(await client.call(t, 'GET', `~/event_schemas/${schema.id}/versions/`), { status: 200, body: { results: [{ version: 1 }] } })
    t.match(await client.call(t, 'PATCH', `~/event_schemas/${schema.id}/`, { owner: 'o' }), { status: 200, body: { owner: 'o' } })
    t.match(await client.call(t, 'POST', `~/event_schemas/${schema.id}/check/`, {}), { status: 200, body: { complete: true } })
    t.match(await client.call(t, 'POST', '~/event_schemas/infer/', { event: 'beyond' }), { status: 200, body: { events: Number } })
    t.match(await client.call(t, 'DELETE', `~/event_schemas/${schema.id}/`), { status: 204 })

    await plantDeadLetter(stack)
    const [{ id: letter }] = (await client.call(t, 'GET', '~/dead_letters/')).body.results
    for (const root of ['~', '/api']) {
      t.match(await client.call(t, 'GET', `${root}/dead_letters/`), { status: 200, body: { results: [{ id: letter }] } })
      t.match(await client.call(t, 'GET', `${root}/dead_letters/groups/`), { status: 200, body: { count: 1, results: [{ count: 1 }] } })
      t.match(await client.call(t, 'GET', `${root}/dead_letters/${letter}/`), { status: 200, body: { error: 'planted' } })
      t.match(await client.call(t, 'POST', `${root}/dead_letters/replay/`, { dry_run: true }), { status: 200, body: { matched: 1 } })
      t.match(await client.call(t, 'POST', `${root}/dead_letters/purge/`, { dry_run: true }), { status: 200, body: { matched: 1 } })
    }
    // Before anything is replayed: from then on there are events.
    t.match(await client.call(t, 'GET', '~/events/arrivals/'), { status: 200, body: { first_received_at: null } })
    t.match(await client.call(t, 'POST', `~/dead_letters/${letter}/replay/`), { status: 200, body: { replayed: 1 } })
    for (const root of ['~', '/api']) {
      await plantDeadLetter(stack)
      const [{ id: other }] = (await client.call(t, 'GET', `${root}/dead_letters/`)).body.results
      t.match(await client.call(t, 'DELETE', `${root}/dead_letters/${other}/`), { status: 204 })
    }
    await plantDeadLetter(stack)
    const [{ id: last }] = (await client.call(t, 'GET', '/api/dead_letters/')).body.results
    t.match(await client.call(t, 'POST', `/api/dead_letters/${last}/replay/`), { status: 200, body: { replayed: 1 } })

    t.match(await client.call(t, 'GET', `~/events/${randomUUID()}/receipt/`), { status: 200, body: { fate: 'unknown', may_be_in: [] } })
    t.match(await client.call(t, 'GET', `~/events/${randomUUID()}/`), { status: 200, body: { stored: null } })
    await client.open(t, 'GET', '~/events/live/')
    t.match(await client.call(t, 'GET', '~/cohorts/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', '~/events/?limit=1'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/groups/types/'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/groups/?group_type_index=0'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/persons/seen/'), { status: 200, body: { results: Array } })
    t.match(await client.call(t, 'GET', '~/events/digests/?from=2020-01-01&to=2020-01-02'), { status: 200, body: { results: [], is_cut: false } })
    t.match(await client.call(t, 'GET', '~/events/hashes/?day=2020-01-01&event=paid'), { status: 200, body: { results: [], is_cut: false } })
    const paying = { type: 'AND', values: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }] }
    const cohort = await client.call(t, 'POST', '~/cohorts/', { name: 'Paying', filters: paying })
    t.match(cohort, { status: 201, body: { name: 'Paying', is_static: false, filters: paying } })
    t.match(await client.call(t, 'GET', `~/cohorts/${cohort.body.id}/`), { status: 200, body: { kind: 'properties', people: null, used_by: [] } })
    t.match(await client.call(t, 'POST', `~/cohorts/${cohort.body.id}/refresh/`), { status: 200, body: { name: 'Paying' } })
    t.match(await client.call(t, 'DELETE', `~/cohorts/${cohort.body.id}/`), { status: 204 })
    t.match(await client.call(t, 'GET', '~/receipts/?distinct_id=nobody'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', '~/ledger/'), { status: 200, body: { next: null } })
    t.match(await client.call(t, 'GET', '~/event_definitions/volumes/'), { status: 200, body: { results: [] } })
    t.match(await client.call(t, 'GET', '~/property_definitions/volumes/'), { status: 200, body: { results: Array } })
    const property = await insertProperty(stack, 'profiled')
    for (const [kind, id] of [['event', await insertEvent(stack, 'profiled')], ['property', property]]) {
      t.match(await client.call(t, 'GET', `~/${kind}_definitions/${id}/profile/`), { status: 200 })
    }
    t.match(await client.call(t, 'GET', '~/ingestion_warnings/summary/?hours=1'), { status: 200, body: { results: [] } })

    const person = personUuid(1, 'of 1')
    await stack.sql`INSERT INTO persons (project_id, uuid) VALUES (1, ${person})`
    t.match(await client.call(t, 'GET', '~/persons/?limit=1'), { status: 200, body: { results: [{ id: person }] } })
    t.match(await client.call(t, 'GET', `~/persons/${person}/`), { status: 200, body: { id: person, distinct_ids: [] } })
    t.match(await client.call(t, 'GET', `~/persons/search/?search=${person}`), { status: 200, body: { matches: [{ by: 'uuid', uuid: person }] } })
    t.match(await client.call(t, 'GET', `~/persons/${person}/history/`), { status: 200, body: { distinct_id_count: 0 } })
    await stack.sql`
      INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)
      SELECT 1, 'of ' || n, persons.id FROM persons, generate_series(1, 3) AS n WHERE uuid = ${person}`
    t.match(await client.call(t, 'POST', `~/persons/${person}/split/`, { distinct_ids: ['of 2', 'of 3'] }), { status: 200, body: { kind: 'split', persons: [String, String] } })
    t.match(await client.call(t, 'POST', `~/persons/${person}/split/`, { distinct_ids: ['of 3'] }), { status: 400, body: { attr: 'distinct_ids' } })
    t.match(await client.call(t, 'POST', `~/persons/${person}/undo_merge/`, { event: randomUUID() }), { status: 400, body: { attr: 'event' } })
    const merge = randomUUID()
    const identify = { uuid: merge, event: '$identify', distinct_id: 'of 2', properties: { $anon_distinct_id: 'of 3' } }
    await client.call(t, 'POST', '/batch/', { api_key: stack.projectApiKey, batch: [identify] })
    await waitFor(async () => (await client.call(t, 'GET', `~/events/${merge}/`)).body.stored !== null)
    await waitFor(async () => (await client.call(t, 'GET', `~/persons/${personUuid(1, 'of 2')}/`)).body.distinct_ids?.length === 2)
    t.match(await client.call(t, 'POST', `~/persons/${personUuid(1, 'of 2')}/undo_merge/`, { event: merge }), { status: 200, body: { kind: 'undo' } })
    t.match(await client.call(t, 'GET', '~/persons/repairs/'), { status: 200, body: { count: 2 } })
    t.match(await client.call(t, 'POST', '~/erasures/', { distinct_ids: ['of 3'], dry_run: true }), { status: 200, body: { id: null } })
    t.match(await client.call(t, 'POST', '~/erasures/', { events: { event: '$identify', distinct_id: 'of 2' }, dry_run: true }), { status: 200, body: { found: [{ where: 'events', count: 1 }] } })
    t.match(await client.call(t, 'POST', '~/erasures/', { distinct_ids: ['of 2'], persons: { event: 'x' } }), { status: 400, body: { attr: 'distinct_ids' } })
    await client.open(t, 'GET', '~/persons/export/?distinct_id=of 2')
    const erasure = await client.call(t, 'POST', '~/erasures/', { distinct_ids: ['of 2'] })
    t.match(erasure, { status: 200, body: { done_at: DATE_TIME } })
    t.same(erasure.body.found.find(({ where }: { where: string }) => where === 'events'), { where: 'events', count: 1 })
    t.match(await client.call(t, 'GET', '~/erasures/'), { status: 200, body: { count: 1, results: [{ id: erasure.body.id }] } })
    t.match(await client.call(t, 'DELETE', `~/erasures/${erasure.body.id}/`), { status: 204 })
    t.match(await client.call(t, 'DELETE', `~/persons/${person}/`), { status: /^20[24]$/ })
    t.match(await client.call(t, 'GET', `~/persons/deletions/?person=${person}`), { status: 200, body: { count: 1, results: [{ person }] } })
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

/** Dead-letters a message as the pipeline does; its replay changes nothing. */
async function plantDeadLetter (stack: Stack): Promise<void> {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger })
  await publishDeadLetter(connection, {
    stage: 'persons', reason: 'refused', error: 'planted', subject: 'persons.0', sequence: 1, headers: {},
    body: Buffer.from('{}'), id: randomUUID(), project: 1
  })
  await connection.close()
}

async function plantLostIngest (stack: Stack): Promise<void> {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger })
  const entry = { host: 'lost', folder: '/lost', version: '1', publishedThrough: Date.now(), inFlight: 0, spoolBytes: 0 }
  await (await new Kvm(connection).open(INGEST_BUCKET)).put(presenceKey('lost'), JSON.stringify(entry))
  await connection.close()
}
