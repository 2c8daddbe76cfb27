import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import { Ajv } from 'ajv'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { waitFor } from '../test/support/wait-for.ts'
import { createRequestValidation } from './http/request-validation.ts'
import { createTestApi, send } from './testing/create-test-api.ts'

const PARTS = ['body', 'querystring', 'params', 'headers'] as const

t.test('every schema compiles, and those of requests are valid JSON Schema: neither is seen at the start', async (t) => {
  const ajv = new Ajv()
  const validation = createRequestValidation()
  let seen = 0
  const faults: string[] = []
  const answers: { url: string, answers: object, schemas: () => Record<string, unknown> }[] = []
  function watchRoutes (message: unknown): void {
    (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', function ({ method, url, schema }) {
      for (const part of PARTS) {
        const given = schema?.[part] as object | undefined
        if (given === undefined) continue
        seen++
        if (ajv.validateSchema(given) !== true) faults.push(`${String(method)} ${url} ${part}: ${ajv.errorsText(ajv.errors)}`)
        t.doesNotThrow(() => validation({ schema: given, httpPart: part, method: '', url })({}), `${url} ${part}`)
      }
      // Schemas that it names may be added after it.
      const schemas = (): Record<string, unknown> => this.getSchemas()
      const response = schema?.response as object | undefined
      if (response !== undefined) answers.push({ url, answers: response, schemas })
    })
  }

  subscribe('fastify.initialization', watchRoutes)
  t.teardown(() => unsubscribe('fastify.initialization', watchRoutes))
  await createTestApi(t)

  for (const { url, answers: byStatus, schemas } of answers) {
    const compile = SerializerSelector()(schemas())
    for (const [httpStatus, schema] of Object.entries(byStatus)) {
      if ('content' in schema) continue
      t.doesNotThrow(() => compile({ schema, httpStatus, method: '', url }), `${url} ${httpStatus}`)
    }
  }
  t.ok(answers.length > 80, `answers of ${answers.length} routes`)
  t.same(faults, [])
  t.ok(seen > 30, `${seen} schemas`)
})

t.test('sets security headers on every answer, errors included', async (t) => {
  const api = await createTestApi(t)

  for (const path of ['~/feature_flags/', '/api/schema', '/no/such/path']) {
    t.match((await api.call('GET', path)).headers, {
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'"
    }, path)
  }
  const { headers } = await api.app.inject('/docs/')
  t.match(headers, { 'x-frame-options': 'DENY', 'content-security-policy': undefined }, 'the page runs scripts of its own')
})

t.test('names every operation once, so that clients can be generated from the document', async (t) => {
  const api = await createTestApi(t)
  const { body } = await api.call('GET', '/api/schema')
  type Paths = Record<string, Record<string, { operationId?: string }>>
  const { paths, servers } = body as { paths: Paths, servers: object[] }
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
  const ids = operations.map(({ operationId }) => operationId ?? '')

  t.ok(ids.length > 30, `${ids.length} operations`)
  t.same(ids.filter((id) => !/^[a-z][A-Za-z0-9]+$/.test(id)), [])
  t.equal(new Set(ids).size, ids.length)
  t.ok(ids.includes('getProjectsByProjectIdFeatureFlags') && ids.includes('captureBatch'), ids.join(' '))
  t.same(servers, [{ url: '/', description: 'This installation.' }])
})

t.test('a page of any origin reads that a path is not served, and nothing of management', async (t) => {
  const { app } = await createTestApi(t)
  const origin = 'https://shop.example'
  const ask = async (method: 'OPTIONS' | 'POST', url: string) => await app.inject({
    method, url, headers: { origin, ...method === 'OPTIONS' && { 'access-control-request-method': 'POST' } }
  })

  for (const url of ['/api/push_subscriptions/', '/no/such/path', '/e/%ZZ']) {
    t.match(await ask('OPTIONS', url), { statusCode: 204, headers: { 'access-control-allow-origin': origin, 'access-control-allow-methods': 'POST' } }, url)
    t.match(await ask('POST', url), { statusCode: /^40[04]$/, headers: { 'access-control-allow-origin': origin } }, url)
  }
  const managed = await ask('OPTIONS', '/api/projects/1/feature_flags/')
  t.equal(managed.statusCode, 405)
  t.notOk(managed.headers['access-control-allow-origin'])
})

t.test('answers health by name of what it depends on, and metrics by route', async (t) => {
  const api = await createTestApi(t)
  await api.call('GET', '~/experiments/')

  t.match(await api.call('GET', '/_liveness'), { status: 200, body: { status: 'ok' } })
  t.match(await api.call('GET', '/_readiness'), { status: 200, body: { status: 'degraded', checks: { postgres: 'ok', clickhouse: 'unavailable' }, pid: process.pid } })
  t.match(await api.call('GET', '/_health/'), { status: 503, body: { status: 'degraded', stuck: ['clickhouse'] } })
  const metrics = await api.app.inject('/metrics')
  t.match(metrics.body, /millrace_api_request_duration_seconds_count\{method="GET",route="\/api\/projects\/:project_id\/experiments\/?",status="200"\} 1/)
})

t.test('stays ready and answers decide while Postgres is unavailable', async (t) => {
  const api = await createTestApi(t)
  await api.call('POST', '~/feature_flags', { key: 'on', filters: { groups: [{ properties: [], rollout_percentage: 100 }] } })
  const decide = async (): Promise<unknown> => await send(api.app, {
    method: 'POST', url: '/decide?v=3', payload: { api_key: api.projectKey, distinct_id: 'd' }
  })
  await waitFor(async () => JSON.stringify(await decide()).includes('"on":true'))

  await api.sql.end({ timeout: 1 })

  t.match(await api.call('GET', '/_readiness'), { status: 200, body: { status: 'degraded', checks: { postgres: 'unavailable' } } })
  t.match(await api.call('GET', '/_health'), { status: 503, body: { stuck: ['postgres', 'clickhouse'] } })
  t.match(await decide(), { status: 200, body: { featureFlags: { on: true }, errorComputingFlags: false } })
})
