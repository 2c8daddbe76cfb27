/** The unmodified OFREP provider of OpenFeature, and what the protocol says beside it. */
import { OFREPProvider } from '@openfeature/ofrep-provider'
import { OpenFeature } from '@openfeature/server-sdk'
import t from 'tap'
import { addFlags, ask, createTestDecide } from '../../testing/create-test-decide.ts'

const decide = await createTestDecide(t)
const variants = [{ key: 'control', rollout_percentage: 50 }, { key: 'test', rollout_percentage: 50 }]
await addFlags(decide, [
  { key: 'on', filters: { groups: [{}], payloads: { true: '{"max":5}' } } },
  { key: 'off', filters: { groups: [] } },
  { key: 'split', filters: { groups: [{}], multivariate: { variants } } },
  { key: 'pro', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] } },
  { key: 'staff', filters: { groups: [{ properties: [{ key: 'groups', value: 'staff', operator: 'icontains', type: 'person' }] }] } }
])

async function post (
  path: string, body: unknown, headers: Record<string, string> = {}
): Promise<{ status: number, etag: string, exposed: string | null, body: any }> {
  const response = await fetch(`${decide.url}/ofrep/v1/evaluate/flags${path}`, {
    method: 'POST', body: JSON.stringify(body), headers: { authorization: `Bearer ${decide.projectKey}`, ...headers }
  })
  const text = await response.text()
  return {
    status: response.status,
    etag: response.headers.get('etag') ?? '',
    exposed: response.headers.get('access-control-expose-headers'),
    body: text === '' ? null : JSON.parse(text)
  }
}

t.test('@openfeature/ofrep-provider has the values that /flags answers, for many users', async (t) => {
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: decide.url, headers: [['X-API-Key', decide.projectKey]] }))
  t.teardown(async () => await OpenFeature.close())
  const client = OpenFeature.getClient()

  for (let i = 0; i < 30; i++) {
    const plan = i % 2 === 0 ? 'pro' : 'free'
    const context = { targetingKey: `user-${i}`, plan }
    const { body } = await ask(decide, '/flags/?v=2', { distinct_id: `user-${i}`, person_properties: { plan } })
    t.equal(await client.getStringValue('split', 'none', context), body.flags.split.variant)
    t.equal(await client.getBooleanValue('pro', false, context), body.flags.pro.enabled)
  }
  const context = { targetingKey: 'ann' }
  t.match(await client.getBooleanDetails('on', false, context), {
    value: true, reason: 'TARGETING_MATCH', variant: 'on', flagMetadata: { payload: '{"max":5}', reason: 'condition_match' }
  })
  t.match(await client.getBooleanDetails('off', true, context), { value: false, reason: 'DEFAULT', variant: 'off' })
  t.match(await client.getBooleanDetails('nobody', true, context), { value: true, errorCode: 'FLAG_NOT_FOUND' })
  t.match(await client.getBooleanDetails('on', false, {}), { value: false, errorCode: 'TARGETING_KEY_MISSING' })
})

t.test('all flags at once, and 304 while nothing changed', async (t) => {
  const context = { targetingKey: 'ann', plan: 'pro' }

  const first = await post('', { context })
  const again = await post('', { context }, { 'if-none-match': first.etag })
  const other = await post('', { context: { ...context, plan: 'free' } }, { 'if-none-match': first.etag })

  t.same(first.body.flags.map(({ key }: { key: string }) => key).sort(), ['off', 'on', 'pro', 'split', 'staff'])
  t.match(again, { status: 304, exposed: 'ETag', body: null }, 'pages can read the tag')
  t.equal(other.status, 200)
  for (const known of [`W/${first.etag}`, `"other", ${first.etag}`, `W/"other",W/${first.etag} , "more"`, '*']) {
    t.equal((await post('', { context }, { 'if-none-match': known })).status, 304, known)
  }
  for (const unknown of ['"other"', 'W/"other", "more"', first.etag.slice(1, -1), '']) {
    t.equal((await post('', { context }, { 'if-none-match': unknown })).status, 200, unknown)
  }
})

t.test('groups that are not an object are an attribute of the application', async (t) => {
  const staff = async (context: object): Promise<unknown> => (await post('/staff', { context: { targetingKey: 'ann', ...context } })).body.value

  t.equal(await staff({ groups: ['admin', 'staff'] }), true)
  t.equal(await staff({ groups: 'Staff' }), true)
  for (const groups of [5, true, [], null, 'admin', undefined]) t.equal(await staff({ groups }), false, JSON.stringify(groups))
  t.equal(await staff({ groups: { company: 'staff' } }), false, 'an object is the groups of other SDKs')
  t.equal(await staff({ groups: ['staff'], group_properties: ['x'] }), true)
  const long = '{"context":{"targetingKey":"ann","groups":12345678901234567890}}'
  const answer = await fetch(`${decide.url}/ofrep/v1/evaluate/flags/on`, { method: 'POST', body: long, headers: { 'x-api-key': decide.projectKey } })
  t.equal(answer.status, 200, 'a long number is no object')
})

t.test('providers in pages may ask from any origin', async (t) => {
  const answer = await fetch(`${decide.url}/ofrep/v1/evaluate/flags`, {
    method: 'OPTIONS', headers: { origin: 'https://shop.example', 'access-control-request-headers': 'x-api-key' }
  })

  t.match(Object.fromEntries(answer.headers), {
    'access-control-allow-origin': 'https://shop.example', 'access-control-allow-headers': 'x-api-key'
  })
})

t.test('bad requests get the error codes of the protocol', async (t) => {
  t.match(await post('/on', { context: 5 }), { status: 400, body: { key: 'on', errorCode: 'PARSE_ERROR' } })
  t.match(await post('/on', 5), { status: 400, body: { errorCode: 'PARSE_ERROR' } })
  t.match(await post('/on', { context: { targetingKey: 'a', groups: { company: {} } } }),
    { status: 400, body: { errorCode: 'PARSE_ERROR', errorDetails: /groups__company/ } })
  t.match(await post('', {}), { status: 400, body: { errorCode: 'TARGETING_KEY_MISSING' } })
  t.match(await post('/on', {}, { authorization: 'Bearer phc_nobody' }), { status: 401, body: { code: 'invalid_api_key' } })
})

t.end()
