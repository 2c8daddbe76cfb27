import t from 'tap'
import { HttpError } from '../../engines/errors.ts'
import { connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { CONTENT_TYPES } from '../../test/support/content-types.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi, send } from '../testing/create-test-api.ts'
import { describeClickHouseError } from './describe-clickhouse-error.ts'
import { answerInTime, isUniqueViolation } from './answer-errors.ts'

const shared = await createTestApi(t)

t.test('answers unknown paths with 404 and other methods with 405, in the shape of the contract', async (t) => {
  const api = await shared.inNewProject()

  t.match(await api.call('GET', '/nothing/here'), { status: 404, body: { type: 'invalid_request', code: 'not_found', detail: 'Not found.', attr: null } })
  t.match(await api.call('GET', '~/nothing'), { status: 404, body: { code: 'not_found' } })
  t.match(await api.call('DELETE', '~/experiments/'), {
    status: 405, headers: { allow: 'GET, HEAD, POST' },
    body: { type: 'invalid_request', code: 'method_not_allowed', detail: 'Method "DELETE" not allowed.', attr: null }
  })
  t.match(await api.call('POST', '~/event_definitions'), { status: 405 })
  // Whatever their body is.
  for (const payload of ['', '{"a":']) {
    const headers = { 'content-type': 'application/json' }
    t.match(await send(api.app, { method: 'PATCH', url: '/nothing/here', payload, headers }), { status: 404, body: { code: 'not_found' } })
    t.match(await send(api.app, { method: 'DELETE', url: `/api/projects/${api.projectId}`, payload, headers }), { status: 405 })
  }
})

t.test('names the part of a request that cannot be read', async (t) => {
  const api = await shared.inNewProject()
  const post = async (payload: string | Buffer, type = 'application/json'): Promise<unknown> => await send(api.app, {
    method: 'POST', url: `/api/projects/${api.projectId}/experiments`, payload,
    headers: { authorization: `Bearer ${api.key}`, 'content-type': type }
  })

  t.match(await post('{"name": '), { status: 400, body: { type: 'validation_error', code: 'malformed_request', attr: 'body' } })
  t.match(await post(''), { status: 400, body: { type: 'validation_error', attr: 'body' } })
  t.match(await post('"text"'), { status: 400, body: { attr: 'body' } })
  t.match(await post(Buffer.from('{"name":"caf\xe9"}', 'latin1')), { status: 400, body: { code: 'malformed_request', detail: 'The request body is not UTF-8.', attr: 'body' } })
  t.match(await post('null'), { status: 400, body: { attr: 'body' } })
  t.match(await post('{"__proto__": {"a": 1}, "name": "n"}'), { status: 400, body: { code: 'invalid_input', attr: '__proto__' } })
  t.match(await post('{"name": "n", "filters": [{"constructor": {"prototype": 1}}]}'), {
    status: 400, body: { detail: 'filters must not have the name prototype.', attr: 'filters__0__constructor__prototype' }
  })
  t.match(await post(`${'{"a":'.repeat(100_000)}{"__proto__": 1}${'}'.repeat(100_000)}`), { status: 400, body: { code: 'invalid_input' } })
  t.match(await post('a=b', 'application/x-www-form-urlencoded'), { status: 415, body: { type: 'invalid_request', code: 'unsupported_media_type', attr: 'content-type' } })
  t.match(await post(JSON.stringify({ name: 'n'.repeat(1_048_576) })), { status: 413, body: { type: 'validation_error', code: 'request_too_large', attr: 'body' } })
  t.match(await post('['.repeat(200_000)), { status: 413, body: { type: 'validation_error', code: 'body_too_large', detail: /131072 values/ } })
  t.match(await post(`{"name": "n", "feature_flag_key": "k", "filters": ${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}}`), { status: 400, body: { detail: /nested deeper/ } })
  t.match(await send(api.app, { method: 'GET', url: `/api/projects/${'1'.repeat(500)}/experiments` }), { status: 414, body: { type: 'invalid_request', detail: 'A part of the path is too long.', attr: null } })
  t.match(await send(api.app, { method: 'GET', url: '/api/projects/%E0%A4%A/experiments' }), { status: 400, body: { type: 'invalid_request', attr: null } })
})

t.test('a store that hangs is answered for, after a while', async (t) => {
  await t.rejects(answerInTime(new Promise(() => {}), 1), { status: 503, code: 'clickhouse_timeout' })
  await t.rejects(answerInTime(Promise.reject(new RangeError('ours')), 60_000), { name: 'RangeError' })
  t.equal(await answerInTime(Promise.resolve(7), 60_000), 7)
})

t.test('reads JSON whatever its content type says', async (t) => {
  const api = await shared.inNewProject()

  for (const [index, type] of CONTENT_TYPES.entries()) {
    const answer = await send(api.app, {
      method: 'POST', url: `/api/projects/${api.projectId}/experiments`,
      payload: JSON.stringify({ name: 'n', feature_flag_key: `flag-${index}` }),
      headers: { authorization: `Bearer ${api.key}`, 'content-type': type }
    })
    t.equal(answer.status, 201, JSON.stringify(type))
  }
  const garbled = await send(api.app, {
    method: 'POST', url: `/api/projects/${api.projectId}/experiments`, payload: '{"name": ',
    headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json, application/json' }
  })
  t.match(garbled, { status: 400, body: { code: 'malformed_request' } })
})

t.test('ignores the content type of a DELETE without a body', async (t) => {
  const api = await shared.inNewProject()
  const { body: { id } } = await api.call('POST', '~/experiments', { name: 'n', feature_flag_key: 'k' })

  const answer = await send(api.app, {
    method: 'DELETE', url: `/api/projects/${api.projectId}/experiments/${id}/`,
    headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' }
  })

  t.match(answer, { status: 204, body: undefined })
})

t.test('answers an unexpected error without details, and 503 while Postgres is unavailable', async (t) => {
  const api = await createTestApi(t)
  await api.call('GET', '~/experiments')

  await api.sql`ALTER TABLE experiments RENAME TO gone`
  t.same((await api.call('GET', '~/experiments')).body, { type: 'server_error', code: 'error', detail: 'A server error occurred.', attr: null })
  await api.sql.end({ timeout: 1 })

  t.match(await api.call('GET', '~/event_definitions'), {
    status: 503, headers: { 'retry-after': '5' }, body: { type: 'server_error', code: 'database_unavailable', attr: null }
  })
})

const { url, client } = await createTestClickHouse(t)

/** @returns the answer to the error of a query. */
async function answerTo (query: Promise<unknown>, what?: string): Promise<unknown> {
  const error: unknown = await query.then(() => null, (cause: unknown) => cause)
  return describeClickHouseError(error, what)
}

t.test('a query that exceeds its time limit is distinguished from an unavailable ClickHouse', async (t) => {
  const slow = queryRows(client, 'SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number)) SETTINGS max_execution_time = 1', {})

  t.match(await answerTo(slow), {
    status: 503, code: 'clickhouse_timeout', detail: 'ClickHouse took longer than the 1 s that this may take; try again later.'
  })
})

t.test('so is one that the client does not wait for', async (t) => {
  const impatient = connectClickHouse({ url, requestTimeoutMs: 50 })
  t.teardown(async () => await impatient.close())

  t.match(await answerTo(queryRows(impatient, 'SELECT sleep(1)', {}), 'which has it'), {
    code: 'clickhouse_timeout', detail: 'ClickHouse, which has it, took longer than this may take; try again later.'
  })
})

t.test('whatever else may pass is called unavailable, and the rest is left as it is', async (t) => {
  const nobody = connectClickHouse({ url: 'http://127.0.0.1:1' })
  t.teardown(async () => await nobody.close())

  t.match(await answerTo(queryRows(nobody, 'SELECT 1', {})), { status: 503, code: 'clickhouse_unavailable' })
  t.match(await answerTo(queryRows(client, 'SELECT 1 FROM no_such_table', {})), { code: '60' })
  const ours = new HttpError(404, 'invalid_request', 'not_found', 'Not found.')
  t.equal(describeClickHouseError(ours), ours)
})

t.test('a violated constraint is known by its name', async (t) => {
  const error = await shared.sql`INSERT INTO projects (id, name) SELECT id, 'again' FROM projects`.catch((error: unknown) => error)

  t.same([undefined, 'projects_pkey', 'other'].map((name) => isUniqueViolation(error, name)), [true, true, false])
})
