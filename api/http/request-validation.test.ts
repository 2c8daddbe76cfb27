import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createNatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { createTestApi, send, type TestAnswer, type TestApi } from '../testing/create-test-api.ts'
import { plantDeadLetters } from '../testing/plant-dead-letters.ts'

/** A parameter as the OpenAPI document describes it. */
interface Parameter {
  name: string
  in: 'path' | 'query'
  required?: boolean
  schema: { type?: string, format?: string, enum?: unknown[], minimum?: number }
}

interface Operation { method: 'GET' | 'POST' | 'PATCH' | 'DELETE', template: string, parameters: Parameter[], isManagement: boolean }

const UUID = '018f3c1e-8d2a-7cc3-9e4b-5a6b7c8d9e0f'
const LONG = '9'.repeat(390)

/** Percent-encoded, as they stand in the URL. None of them is a value of the type. */
const HOSTILE = {
  integer: [
    '0x10', '0b1', '0o7', '1e3', '1e309', '-1e309', '%205', '5%20', '%2B5', '5.0', '.5', '-0', '05', 'NaN', 'Infinity', 'null',
    'true', '%D9%A3', '5%00', '1_000', '5n', '%5B5%5D', '9007199254740993', LONG, '-1', '5;--', '5%0A', '%EF%BC%95'
  ],
  boolean: ['yes', '2', 'null', 'TrUe', '%20true', '1.0', '-1', 'true%00', '01', '%5B%5D', 'NaN'],
  uuid: [
    `urn:uuid:${UUID}`, UUID.replaceAll('-', ''), `%7B${UUID}%7D`, `${UUID}%00`, `%20${UUID}`, UUID.slice(1), `${UUID}0`, '1', 'null', '%F0%9F%92%A9'
  ],
  'date-time': [
    '2026-02-30T10:00:00Z', '2026-13-01', '2026-1-1', 'now', '1e9', '1790000000', '9999-12-31T23:59:59-23:59', '1000-01-01T00:00:00%2B01:00',
    '0000-01-01', '-000001-01-01', '2026-01-01T25:00:00Z', 'infinity', 'null', '2026-01-01%00'
  ],
  date: ['2026-02-30', '2026-13-01', '2026-1-1', '20260101', '2026-01-01T00:00:00Z', 'today', '1e9', 'null', '%202026-01-01', '2026-01-01%00'],
  enum: ['nobody', 'EVENT', '%20event', 'null', '__proto__', 'constructor', 'event%00'],
  text: [
    '%00', 'a%00b', '%F0%9F%92%A9', "'%3B%20DROP%20TABLE%20experiments%3B--", '%25', '%5C', '%24%24', '__proto__', 'constructor', '..%2F..%2Fetc%2Fpasswd',
    '%5B', '%5B%22a%22', '%5B1%5D', '%7B%7D', '%E2%80%AE', '-1', '1e309', 'phx_x', LONG, Buffer.from('["newest","x"]').toString('base64url'),
    Buffer.from('["newest","99999999999"]').toString('base64url'), Buffer.from('["volume_30_day","1e5","a"]').toString('base64url'), 'W10', 'e30'
  ]
}

/** Every fifth value is tried with a parameter, and others with the next one; long runs try all. */
const STRIDE = process.env.MILLRACE_TEST_LONG === '1' ? 1 : 5

/** Bytes that are no text at all: the path or query does not decode. */
const BROKEN = ['%', '%E0%A4%A', '%ED%A0%80', '%FF%FE', '%zz']

const logger = createLogger({ component: 'test', level: 'silent' })
const { client } = await createTestClickHouse(t)
const { url } = await plantDeadLetters(t, [{ project: 1, event: 'paid' }])
const api = await createTestApi(t, { clickhouse: client, nats: createNatsOnDemand({ url, logger }) })
const { body: experiment } = await api.call('POST', '~/experiments', {
  name: 'n', feature_flag_key: 'k', start_date: '2026-01-01', filters: { events: [{ id: 'paid' }] }, secondary_metrics: [{ kind: 'count', event: 'paid' }]
})

function readOperations (app: TestApi['app']): Operation[] {
  const { paths = {} } = app.swagger() as { paths?: Record<string, Record<string, { parameters?: Parameter[] }>> }
  return Object.entries(paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, { parameters = [] }]) => ({
      method: method.toUpperCase() as Operation['method'],
      template,
      parameters: parameters.filter((parameter) => parameter.in === 'path' || parameter.in === 'query'),
      isManagement: template.startsWith('/api/projects/')
    })))
}

/** Which of the lists above fits a parameter. */
function kindOf ({ schema }: Parameter): keyof typeof HOSTILE {
  if (schema.enum !== undefined) return 'enum'
  if (schema.type === 'integer' || schema.type === 'boolean') return schema.type
  return schema.format === 'uuid' || schema.format === 'date-time' || schema.format === 'date' ? schema.format : 'text'
}

/** The URL of an operation with good values in its path, but for the one parameter. */
function buildUrl ({ template, parameters }: Operation, bad: Parameter, value: string): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (name === bad.name && bad.in === 'path') return value
    if (name === 'project_id') return String(api.projectId)
    const good = parameters.find((parameter) => parameter.name === name && parameter.in === 'path')!
    const kind = kindOf(good)
    return kind === 'enum' ? String(good.schema.enum![0]) : kind === 'uuid' ? randomUUID() : kind === 'integer' ? String(experiment.id) : 'k'
  })
  const others = parameters.filter((parameter) => parameter.in === 'query' && parameter.required === true && parameter !== bad)
    .map((parameter) => `&${parameter.name}=${kindOf(parameter) === 'date' ? '2026-01-01' : 'k'}`)
  return bad.in === 'query' ? `${path}?${value}${others.join('')}` : path
}

async function ask ({ method, isManagement }: Operation, url: string): Promise<TestAnswer> {
  const body = isManagement ? { dry_run: true } : { api_key: api.projectKey, distinct_id: 'u' }
  const hasBody = method === 'POST' || method === 'PATCH'
  return await send(api.app, { method, url, headers: { authorization: `Bearer ${api.key}` }, ...(hasBody ? { payload: body } : {}) })
}

const operations = readOperations(api.app).filter(({ template }) => !['/capture', '/batch'].includes(template))

t.test('every parameter of every route refuses values of another type, by its name', async (t) => {
  let asked = 0
  const faults: string[] = []
  for (const operation of operations) {
    for (const parameter of operation.parameters) {
      const kind = kindOf(parameter)
      if (kind === 'text') continue
      const isPath = parameter.in === 'path'
      const values = isPath ? HOSTILE[kind] : ['', ...HOSTILE[kind]].map((value) => `${parameter.name}=${value}`)
      if (!isPath) values.push(`${parameter.name}=1&${parameter.name}=1`)
      // SDKs ask these; what they cannot read there is no reason to give no flags.
      const isLenient = !operation.isManagement
      for (const value of values) {
        const { status, body } = await ask(operation, buildUrl(operation, parameter, value))
        asked++
        const isRefused = (status === 400 && body?.attr === parameter.name) || (isPath && status === 404 && body?.code === 'not_found')
        if (isLenient ? status >= 500 : !isRefused) faults.push(`${operation.method} ${operation.template} ${value.slice(0, 60)}: ${status} ${JSON.stringify(body)?.slice(0, 200)}`)
      }
    }
  }

  t.same(faults, [])
  t.ok(asked > 700, `${asked} requests`)
})

t.test('no text in a path or query brings a route down', async (t) => {
  let [asked, tried] = [0, 0]
  const faults: string[] = []
  // Valid requests get an endless stream, which the tests of the live feed read.
  for (const operation of operations.filter(({ template }) => !template.endsWith('/events/live'))) {
    for (const parameter of operation.parameters) {
      const values = [...HOSTILE.text, ...BROKEN, 'a'.repeat(401), 'a'.repeat(5000)].filter((_, index) => (index + tried) % STRIDE === 0)
      tried++
      if (parameter.in === 'query') values.push('', `a&${parameter.name}=b`, `a&${parameter.name}[]=b`)
      await Promise.all(values.map(async (value) => {
        const { status, headers, body } = await ask(operation, buildUrl(operation, parameter, parameter.in === 'path' ? value : `${parameter.name}=${value}`))
        asked++
        const isNamed = typeof body?.code === 'string' && (status !== 400 || parameter.in === 'path' || typeof body.attr === 'string')
        const isFine = status < 400 || (status < 500 && (isNamed || typeof headers['millrace-error'] === 'string'))
        if (!isFine) faults.push(`${operation.method} ${operation.template} ${parameter.name}=${value.slice(0, 60)}: ${status} ${JSON.stringify(body)?.slice(0, 200)}`)
      }))
    }
  }

  t.same(faults, [])
  t.ok(asked > 1000, `${asked} requests`)
})

t.test('every route that takes a body refuses a number that no double holds, by its place', async (t) => {
  const writing = operations.filter(({ method, isManagement }) => isManagement && (method === 'POST' || method === 'PATCH'))
  for (const operation of writing) {
    const { status, body } = await send(api.app, {
      method: operation.method, url: buildUrl(operation, { name: '', in: 'path', schema: {} }, ''),
      headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' },
      payload: '{"filters":{"groups":[{"rollout_percentage":-1e400}]}}'
    })
    const name = `${operation.method} ${operation.template}`
    t.match({ status, body }, { status: 400, body: { code: 'invalid_input', attr: 'filters__groups__0__rollout_percentage' } }, name)
  }
  t.ok(writing.length > 10, `${writing.length} routes`)
})

t.test('a query parameter that a route does not name changes nothing, not the project either', async (t) => {
  await client.insert({
    table: 'events', format: 'JSONEachRow',
    values: [{ project_id: api.projectId, uuid: UUID, event: 'paid', distinct_id: 'u', timestamp: '2026-01-02 00:00:00' }]
  })
  await api.call('POST', '~/event_schemas', { event: 'paid', schema: { type: 'object' } })
  const others = ['projectId', 'project', 'project_id', 'id', 'sql'].map((name) => `${name}=999999`).join('&')

  const digests = await api.call('GET', `~/events/digests?from=2026-01-02&to=2026-01-02&${others}`)
  const received = await api.call('GET', '~/events/digests?from=2026-01-02&to=2026-01-02&received_from=2020-01-01T00:00:00Z')
  const schemas = await api.call('GET', `~/event_schemas?${others}`)

  t.match(digests.body, { results: [{ event: 'paid', count: 1 }] })
  t.same(received.body.results, [], 'the event has no time of receipt')
  t.match(schemas.body, { count: 1 })
})
