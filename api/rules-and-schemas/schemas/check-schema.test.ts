import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import fastify from 'fastify'
import t from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { answerLookBack } from '../look-back.ts'
import { createTestApi } from '../../testing/create-test-api.ts'

const SCHEMA = { required: ['plan'], properties: { plan: { enum: ['free', 'pro'] }, items: { items: { type: 'string' } } } }
const now = Date.UTC(2026, 10, 21, 12)

const clickhouse = await createTestClickHouse(t)
const api = await createTestApi(t, { clickhouse: clickhouse.client, now: () => now })

interface Stored { lib?: string, daysAgo?: number, event?: string, project?: number }

function row (properties: object, { lib = 'web', daysAgo = 0, event = 'paid', project = api.projectId }: Stored = {}): object {
  const timestamp = new Date(now - daysAgo * 86_400_000 - 1000).toISOString().slice(0, 23)
  return {
    project_id: project, uuid: randomUUID(), event, distinct_id: 'd', timestamp, received_at: timestamp, lib, lib_version: '1',
    properties: JSON.stringify(properties)
  }
}

await clickhouse.client.insert({
  table: 'events',
  format: 'JSONEachRow',
  values: [
    row({ plan: 'pro', $lib: 'web' }), row({ plan: 'gold' }), row({ plan: 'free', items: ['a', 1, 2] }, { lib: 'ios', daysAgo: 3 }),
    row({ items: [1] }, { lib: 'ios', daysAgo: 3 }), row({}, { daysAgo: 9 }), row({}, { event: 'other' }), row({}, { project: api.projectId + 1 })
  ]
})

t.test('makes a draft that the events meet it was made from', async (t) => {
  const infer = async (body: object): Promise<any> => (await api.call('POST', '~/event_schemas/infer', { event: 'paid', ...body })).body

  const { schema, ...found } = await infer({})
  t.same(schema, { type: 'object', properties: { items: { type: 'array' }, plan: { type: 'string' } } })
  t.same(found, {
    events: 5, properties: [{ name: 'plan', events: 3, types: ['string'] }, { name: 'items', events: 2, types: ['array'] }]
  })
  t.match(await infer({ days: 1, include_sdk: true }), { events: 2, schema: { required: ['plan'], properties: { $lib: { type: 'string' } } } })
  t.match(await infer({ limit: 2 }), { events: 2 })
  t.match(await infer({ event: 'unknown' }), { events: 0, schema: { properties: {} } })
  t.match(await infer({ days: 0 }), { attr: 'days' })
  t.match(await infer({ event: '' }), { attr: 'event' })
})

t.test('says what a schema would have done: how many, why, from which SDK', async (t) => {
  const { body: { id } } = await api.call('POST', '~/event_schemas/', { event: 'paid', schema: SCHEMA })
  const check = async (body?: object): Promise<any> => (await api.call('POST', `~/event_schemas/${id}/check`, body)).body

  const found = await check()
  t.match(found, {
    events: 4,
    met: 1,
    failed: 3,
    complete: true,
    failures: [
      { path: '/items/*', keyword: 'type', events: 2, samples: [{ value: '1' }, { value: '1' }] },
      { path: '/plan', keyword: 'enum', events: 1, samples: [{ value: '"gold"' }] },
      { path: '/plan', keyword: 'required', events: 1, samples: [{ value: '' }] }
    ].sort((one, other) => found.failures.findIndex((each: { keyword: string }) => each.keyword === one.keyword) -
      found.failures.findIndex((each: { keyword: string }) => each.keyword === other.keyword)),
    libs: [{ lib: 'ios', lib_version: '1', events: 2, failed: 2 }, { lib: 'web', events: 2, failed: 1 }]
  })
  t.equal(found.failures[0].events, 2)
  t.match(await check({ days: 10 }), { events: 5, failed: 4 })
  t.match(await check({ days: 10, limit: 2 }), { events: 2, complete: false })
  t.match(await check({ days: 1 }), { events: 2, failed: 1 })
  t.match(await check({ schema: {} }), { events: 4, met: 4, failures: [] }, 'a draft that is not stored')
  t.match(await check({ schema: { type: 'text' } }), { code: 'invalid_schema', attr: 'schema__type' })
  t.match(await check({ days: 0 }), { attr: 'days' })
  t.match(await api.call('POST', '~/event_schemas/999999/check'), { status: 404 })
})

t.test('a look back ends when its client leaves, with lines or without', async (t) => {
  const app = fastify()
  t.teardown(async () => await app.close())
  const asked = Promise.withResolvers<AbortSignal>()
  app.get('/', async (request, reply) => await answerLookBack(request, reply, async ({ signal }) => {
    asked.resolve(signal!)
    await once(signal!, 'abort')
    throw new Error('the query was ended')
  }))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  for (const accept of ['application/json', 'application/x-ndjson']) {
    Object.assign(asked, Promise.withResolvers<AbortSignal>())
    const client = new AbortController()
    const answer = fetch(url, { signal: client.signal, headers: { accept } })
      .then(async (response) => await response.text())
    const signal = await asked.promise
    client.abort()
    await t.rejects(answer, { name: 'AbortError' })
    if (!signal.aborted) await once(signal, 'abort')
    t.ok(signal.aborted, accept)
  }
})

t.test('shows how far it is, line by line, when the client asks for lines', async (t) => {
  const { body: { id } } = await api.call('POST', '~/event_schemas/', { event: 'other', schema: SCHEMA })
  const check = async (body: object): Promise<{ status: number, type: unknown, text: string }> => {
    const answer = await api.app.inject({
      method: 'POST', url: `/api/projects/${api.projectId}/event_schemas/${id}/check`, payload: body,
      headers: { authorization: `Bearer ${api.key}`, accept: 'application/x-ndjson' }
    })
    return { status: answer.statusCode, type: answer.headers['content-type'], text: answer.body }
  }

  const { status, type, text } = await check({})
  t.match([status, type], [200, 'application/x-ndjson'])
  const lines = text.trim().split('\n').map((line) => JSON.parse(line))
  t.match(lines[0], { checked: 0, total: 1 })
  t.same(lines.at(-2), { checked: 1, total: 1 })
  t.same(lines.at(-1), (await api.call('POST', `~/event_schemas/${id}/check`, {})).body, 'the last line is the answer of a request without lines')
  t.match(await check({ days: 0 }), { status: 400, text: /days/ })
})

t.test('counts each kind of failure of many events, and shows some of each', async (t) => {
  const values = Array.from({ length: 2000 }, (_, index) => row({ id: `order-${index}`, size: index }, { event: 'varied', daysAgo: 1 }))
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values })
  const { body: { id } } = await api.call('POST', '~/event_schemas/', { event: 'varied', schema: {} })
  const schema = { properties: { id: { maxLength: 9 }, size: { minimum: 5, maximum: 1899 } } }

  const { body: { failures, ...counts } } = await api.call('POST', `~/event_schemas/${id}/check`, { schema })

  t.match(counts, { events: 2000, met: 995, failed: 1005, complete: true })
  t.match(failures, [
    { path: '/id', keyword: 'maxLength', events: 1000 }, { keyword: 'maximum', events: 100 }, { keyword: 'minimum', events: 5 }
  ])
  for (const { samples } of failures) {
    t.equal(samples.length, 3)
    for (const { uuid, value } of samples) t.match([uuid, value], [/^[0-9a-f-]{36}$/, /\d/])
  }
})
