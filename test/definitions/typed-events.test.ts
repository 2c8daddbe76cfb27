import { pathToFileURL } from 'node:url'
import path from 'node:path'
import { build } from 'esbuild'
import t from 'tap'
import { startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { storePublishedEvents } from '../../ingest/testing/read-published-events.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'
import { createTestApi, type TestApi } from '../../api/testing/create-test-api.ts'
import { typeErrors, writeSources } from '../../api/definitions/typed-events/testing/compile-module.ts'

const shared = await createTestApi(t)

/** A name that could end a text of any kind. */
const ODD = 'it\'s "*/ `$' + '{1}`'

const SCHEMA = {
  required: ['plan'], properties: { plan: { type: 'string', enum: ['free', 'pro'] }, seats: { type: 'integer', minimum: 1 } }
}

/** A project with an event that has an active schema, events without one, and names that could end a text early. */
async function plantEvents (): Promise<TestApi> {
  const api = await shared.inNewProject()
  const { sql, projectId } = api
  for (const name of ['upload', '$pageview', '$autocapture', 'constructor', '__proto__', ODD, '123']) {
    await sql`INSERT INTO event_definitions (project_id, name) VALUES (${projectId}, ${name})`
  }
  const properties: [name: string, type: string | null][] = [['bytes', 'Numeric'], ['at', 'DateTime'], ['toString', 'String'], ['list', null], ['$lib', 'String']]
  for (const [name, type] of properties) {
    await sql`INSERT INTO property_definitions (project_id, name, type, property_type) VALUES (${projectId}, ${name}, 'event', ${type})`
    await sql`INSERT INTO event_properties (project_id, event, property) VALUES (${projectId}, 'upload', ${name})`
  }
  await api.call('POST', '~/event_schemas/', { event: 'order paid', schema: SCHEMA, description: 'Money */ came.\nIn.', active_version: 1 })
  await api.call('POST', '~/event_schemas/', { event: 'a draft', schema: SCHEMA })
  return api
}

async function pull (api: TestApi, path: string): Promise<string> {
  const { status, body } = await api.call('GET', `~/event_definitions/${path}`)
  t.equal(status, 200)
  return body.content
}

t.test('answers what posthog-cli reads, the same each time', async (t) => {
  const api = await plantEvents()

  const { status, body } = await api.call('GET', '~/event_definitions/typescript/')

  t.equal(status, 200)
  t.match(body, { content: /^\/\* eslint-disable/, event_count: 7, schema_hash: /^[0-9a-f]{32}$/, generator_version: '1.0.0', complete: true })
  t.same((await api.call('GET', '~/event_definitions/typescript')).body, body)
  t.notMatch(body.content, /autocapture|a draft/, 'neither what SDKs make by themselves, nor what is not active')
  const [{ id }] = (await api.call('GET', '~/event_schemas/?search=order')).body.results
  await api.call('PATCH', `~/event_schemas/${id}`, { schema: { ...SCHEMA, required: ['plan', 'seats'] } })
  t.equal((await api.call('GET', '~/event_definitions/typescript')).body.schema_hash, body.schema_hash, 'a version that is not active changes nothing')
  await api.call('PATCH', `~/event_schemas/${id}`, { active_version: 2 })
  t.not((await api.call('GET', '~/event_definitions/typescript')).body.schema_hash, body.schema_hash)
  t.match(await api.call('GET', '~/event_definitions/typescript?sdk=other'), { status: 400, body: { attr: 'sdk' } })
})

t.test('describes the events as JSON for other generators', async (t) => {
  const api = await plantEvents()

  const events = JSON.parse(await pull(api, 'json/'))

  t.same(events.map(({ name }: { name: string }) => name), ['$pageview', '123', '__proto__', 'constructor', ODD, 'order paid', 'upload'])
  t.match(events.at(-2), {
    name: 'order paid', description: 'Money */ came.\nIn.', schema_version: 1, schema: SCHEMA,
    properties: [{ name: 'plan', type: 'String', required: true }, { name: 'seats', type: 'Numeric', required: false }]
  })
  t.same(events.at(-1).properties, [
    { name: 'at', type: 'DateTime', required: false }, { name: 'bytes', type: 'Numeric', required: false },
    { name: 'list', type: null, required: false }, { name: 'toString', type: 'String', required: false }
  ])
})

t.test('the module of posthog-js compiles strictly, and refuses what does not meet a schema', async (t) => {
  const folder = await writeSources(t, {
    'posthog-typed.ts': await pull(await plantEvents(), 'typescript/'),
    'use.ts': `
import posthog, { type EventName, type EventProperties } from './posthog-typed'
posthog.capture('order paid', { plan: 'pro' })
posthog.capture('order paid', { plan: 'pro', seats: 2, extra: [1] }, { send_instantly: true })
posthog.capture('upload', { bytes: 1, at: new Date() })
posthog.capture('upload')
posthog.capture('$pageview')
posthog.capture('123', { any: 1 })
posthog.capture('constructor')
posthog.capture('__proto__', { a: 1 })
posthog.capture('an event nobody knows', { whatever: true })
posthog.captureRaw('order paid')
posthog.identify('ann')
const name: EventName = 'upload'
const paid: EventProperties<'order paid'> = { plan: 'free' }
posthog.capture(name)
posthog.capture('order paid', paid)
// @ts-expect-error a required property is missing
posthog.capture('order paid')
// @ts-expect-error not one of the values
posthog.capture('order paid', { plan: 'gold' })
// @ts-expect-error another type
posthog.capture('upload', { bytes: 'many' })
// @ts-expect-error a name that is only known at run time
posthog.capture(String(Math.random()))
`
  })

  t.same(typeErrors(folder, ['posthog-typed.ts', 'use.ts']), [])
})

t.test('the module of posthog-node sends events, and refuses what does not meet a schema', async (t) => {
  const ingest = await startTestIngest(t)
  const clickhouse = await createTestClickHouse(t)
  const folder = await writeSources(t, {
    'posthog-typed.ts': await pull(await plantEvents(), 'typescript/?sdk=posthog-node'),
    'send.ts': `
import { PostHog, typed } from './posthog-typed'
export async function send (key: string, host: string): Promise<void> {
  const posthog = typed(new PostHog(key, { host, flushAt: 1, flushInterval: 0 }))
  posthog.capture({ distinctId: 'ann', event: 'order paid', properties: { plan: 'pro', seats: 2 } })
  posthog.capture({ distinctId: 'ann', event: 'upload' })
  posthog.capture({ distinctId: 'ann', event: 'constructor', properties: { a: 1 } })
  posthog.capture({ distinctId: 'ann', event: 'an event nobody knows', properties: { a: 1 } })
  await posthog.captureImmediate({ distinctId: 'ann', event: '__proto__' })
  posthog.captureRaw({ distinctId: 'ann', event: 'order paid' })
  await posthog.shutdown()
}
export function refused (posthog: ReturnType<typeof typed>): void {
  // @ts-expect-error a required property is missing
  posthog.capture({ distinctId: 'ann', event: 'order paid' })
  // @ts-expect-error not one of the values
  posthog.capture({ distinctId: 'ann', event: 'order paid', properties: { plan: 'gold' } })
  // @ts-expect-error another type
  posthog.capture({ distinctId: 'ann', event: 'upload', properties: { bytes: 'many' } })
}
`
  })

  t.same(typeErrors(folder, ['posthog-typed.ts', 'send.ts']), [])

  const bundle = path.join(folder, 'send.mjs')
  await build({ entryPoints: [path.join(folder, 'send.ts')], outfile: bundle, bundle: true, format: 'esm', platform: 'node', packages: 'external' })
  const { send } = await import(pathToFileURL(bundle).href) as { send: (key: string, host: string) => Promise<void> }
  await send('phc_test_project', ingest.url)
  await waitFor(async () => await ingest.metric('millrace_ingest_events_accepted_total') === 6)
  const stored = await storePublishedEvents(ingest.connection, clickhouse)
  t.same(stored.map(({ event }) => event), ['__proto__', 'an event nobody knows', 'constructor', 'order paid', 'order paid', 'upload'])
  t.ok(stored.some(({ properties }) => properties.includes('"plan":"pro"')))
})
