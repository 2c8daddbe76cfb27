import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { request } from 'undici'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { createTestApi } from '../../api/testing/create-test-api.ts'
import { CAPTURE_PATHS } from '../../ingest/server/capture-routes.ts'
import { startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { maskKey } from '../../schema/key-text.ts'
import { waitFor } from '../support/wait-for.ts'

/** Written down here, and not read from the code under test. */
const OBJECTS = ['dead_letter', 'event', 'event_definition', 'experiment', 'feature_flag', 'person', 'project', 'property_definition', 'query', 'user']
const SCOPES = ['*', ...OBJECTS.flatMap((object) => [`${object}:read`, `${object}:write`])]

/** The object that each folder of the management API is about. */
const FOLDERS: Record<string, string> = {
  alerts: 'query',
  annotations: 'query',
  boards: 'query',
  cohorts: 'feature_flag',
  dead_letters: 'dead_letter',
  erasures: 'person',
  event_definitions: 'event_definition',
  event_schemas: 'event_definition',
  rules: 'event_definition',
  events: 'event',
  experiments: 'experiment',
  exports: 'project',
  feature_flags: 'feature_flag',
  groups: 'person',
  imports: 'event',
  ingestion_warnings: 'event',
  ledger: 'event',
  persons: 'person',
  property_definitions: 'property_definition',
  questions: 'query',
  receipts: 'event',
  saved_queries: 'query',
  targets: 'project'
}

/** Endpoints outside those folders. */
const ACCOUNT: Record<string, string> = {
  // It shows values of stored events.
  '/api/projects/{project_id}/event_schemas/{id}/check': 'event',
  '/api/projects/{project_id}/event_schemas/infer': 'event',
  '/api/projects/{project_id}/rules/{id}/check': 'event',
  // It needs event:read as well, so that no key with one scope opens it.
  '/api/projects/{project_id}/questions/persons': 'query and person',
  '/api/projects/{project_id}/persons/seen': 'person and event',
  '/api/projects/{project_id}/persons/export': 'person, event and dead_letter',
  '/api/projects': 'project', '/api/projects/{project_id}': 'project', '/api/projects/{project_id}/keys': 'project',
  '/api/projects/{project_id}/quota': 'project', '/api/projects/{project_id}/usage': 'project',
  '/api/projects/{project_id}/rotate_key': 'project', '/api/users': 'user', '/api/users/@me': 'user', '/api/users/@me/password': 'user',
  '/api/personal_api_keys': 'user', '/api/personal_api_keys/{id}': 'user', '/api/personal_api_keys/{id}/rotate': 'user'
}

/** About the whole installation, for keys of all projects. */
const INSTALLATION: Record<string, string> = {
  '/api/dead_letters': 'dead_letter', '/api/dead_letters/groups': 'dead_letter', '/api/dead_letters/{id}': 'dead_letter',
  '/api/dead_letters/replay': 'dead_letter', '/api/dead_letters/{id}/replay': 'dead_letter', '/api/dead_letters/purge': 'dead_letter',
  '/api/sql': 'query', '/api/sql/download': 'query', '/api/sql/tables': 'query', '/api/status': 'project',
  '/api/users/{id}': 'user', '/api/invitations': 'user', '/api/record': 'user', '/api/record/export': 'user', '/api/retention': 'project', '/api/watermark': 'project', '/api/watermark/ingest/{id}': 'project'
}

/** Only keys that may do everything change these. */
const ADMINISTRATION = ['/api/retention', '/api/watermark/ingest/{id}', '/api/users/{id}', '/api/invitations', '/api/record', '/api/record/export']

/** Nobody needs a personal key there. */
const OPEN = /^\/(capture|batch|decide|flags|ofrep|_|api\/feature_flag|api\/shared_board)/

/** They ask with a body, and change nothing. */
const ASKING = ['/api/projects/{project_id}/alerts/dry_run', '/api/sql', '/api/sql/download', '/api/projects/{project_id}/questions/answer', '/api/projects/{project_id}/questions/persons', '/api/projects/{project_id}/feature_flags/test', '/api/projects/{project_id}/event_schemas/{id}/check', '/api/projects/{project_id}/event_schemas/infer', '/api/projects/{project_id}/rules/{id}/check']

interface Endpoint {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  /** The scope that opens it, beside `*`. */
  wanted: string
  isOfInstallation?: boolean
}

const api = await createTestApi(t)
const apiUrl = await api.app.listen({ port: 0, host: '127.0.0.1' })
const ingest = await startTestIngest(t, { DATABASE_URL: api.databaseUrl, MILLRACE_API_URL: apiUrl })

/** Capture requests that were answered with 200. */
let captured = 0

t.test('a personal key does at each endpoint what its scopes say, and nothing else', async (t) => {
  const endpoints = [...publicEndpoints(), ...await managementEndpoints(t, api.app)]
  const keys = new Map<string, { ofProject: string, ofAll: string }>()
  for (const scope of SCOPES) {
    keys.set(scope, { ofProject: await createKey([scope]), ofAll: await createKey([scope], null) })
  }
  await waitFor(async () => (await ask(endpoints[0] as Endpoint, keys.get('*')!.ofProject)).status === 200)

  const wrong: string[] = []
  for (const [scope, { ofProject, ofAll }] of keys) {
    for (const endpoint of endpoints) {
      const { status, code } = await ask(endpoint, endpoint.isOfInstallation === true ? ofAll : ofProject)
      const mayDo = allows(scope, endpoint.wanted)
      const isRefused = status === 403 && code === 'permission_denied'
      if (isRefused === mayDo || status === 401) wrong.push(`${scope} at ${endpoint.method} ${endpoint.path}: ${status} ${code}`)
    }
  }

  t.same(wrong, [])
  t.equal(await ingest.metric('millrace_ingest_events_accepted_total'), captured, 'what was refused was not taken')
})

t.test('scopes that change count at once in both tiers, as a revoked key does', async (t) => {
  const capture: Endpoint = { method: 'POST', path: '/capture/', wanted: 'event:write' }
  const flags: Endpoint = { method: 'POST', path: '/flags/', wanted: 'feature_flag:read' }
  const key = await createKey(['event:write'])
  const answers = async (): Promise<unknown> => [(await ask(capture, key)).status, (await ask(flags, key)).status]
  const become = async (expected: number[]): Promise<void> => {
    await waitFor(async () => JSON.stringify(await answers()) === JSON.stringify(expected))
  }

  await become([200, 403])
  await api.sql`UPDATE personal_api_keys SET scopes = '{feature_flag:read}' WHERE scopes = '{event:write}'`
  await become([403, 200])
  await api.sql`UPDATE personal_api_keys SET revoked_at = now() WHERE mask_value = ${maskKey(key)}`
  await become([401, 401])
  t.pass()
})

async function createKey (scopes: string[], projectIds: number[] | null = [api.projectId]): Promise<string> {
  const { key } = await createPersonalKey(api.sql, {
    email: api.user.email, label: '', scopes, projectIds, expiresAt: null
  })
  return key
}

function allows (scope: string, wanted: string): boolean {
  return scope === '*' || scope === wanted || scope.replace(':write', ':read') === wanted
}

function publicEndpoints (): Endpoint[] {
  return [
    ...CAPTURE_PATHS.map((path): Endpoint => ({ method: 'POST', path, wanted: 'event:write' })),
    { method: 'POST', path: '/decide/?v=3', wanted: 'feature_flag:read' },
    { method: 'POST', path: '/flags/?v=2', wanted: 'feature_flag:read' },
    { method: 'GET', path: '/flags/definitions', wanted: 'feature_flag:read' },
    { method: 'GET', path: '/api/feature_flag/local_evaluation', wanted: 'feature_flag:read' }
  ]
}

/** All of them, as the schema lists them: one that is added is tried too. */
async function managementEndpoints (t: Test, app: FastifyInstance): Promise<Endpoint[]> {
  const { paths } = (await app.inject('/api/schema')).json<{ paths: Record<string, Record<string, unknown>> }>()
  const endpoints: Endpoint[] = []
  for (const [path, operations] of Object.entries(paths)) {
    const [, folder] = /^\/api\/projects\/\{project_id\}\/(\w+)/.exec(path) ?? []
    const object = INSTALLATION[path] ?? ACCOUNT[path] ?? FOLDERS[folder ?? '']
    if (object === undefined && OPEN.test(path)) continue
    if (object === undefined) t.fail(`what ${path} is about must be written down here`)
    for (const method of Object.keys(operations)) {
      endpoints.push({
        method: method.toUpperCase() as Endpoint['method'],
        // One asks for a second scope when it has read the id.
        path: path.replace('{project_id}', String(api.projectId)).replace('persons/{id}', `persons/${randomUUID()}`).replace(/\{\w+\}/g, '999'),
        wanted: (method !== 'get' || path.startsWith('/api/record')) && ADMINISTRATION.includes(path) ? '*' : `${object}:${method === 'get' || ASKING.includes(path) ? 'read' : 'write'}`,
        isOfInstallation: path in INSTALLATION
      })
    }
  }
  t.ok(endpoints.length > 20)
  return endpoints
}

async function ask ({ method, path, wanted }: Endpoint, key: string): Promise<{ status: number, code: unknown }> {
  const isCapture = wanted === 'event:write' && !path.startsWith('/api/')
  const body = isCapture ? { api_key: key, event: 'e', distinct_id: 'd' } : { api_key: key, distinct_id: 'd' }
  const isPublic = isCapture || (method === 'POST' && !path.startsWith('/api/'))
  // Nothing is decided on the way through the origin, which is not taken by thousands of requests.
  const { statusCode: status, headers, body: answer } = await request((isPublic ? ingest.url : apiUrl) + path, {
    method,
    headers: { 'content-type': 'application/json', ...(isPublic ? {} : { authorization: `Bearer ${key}` }) },
    ...(method === 'GET' || method === 'DELETE' ? {} : { body: JSON.stringify(isPublic ? body : {}) })
  })
  if (isCapture && status === 200) captured++
  if (/event-stream|ndjson/.test(String(headers['content-type']))) {
    // It never ends, or is no JSON.
    answer.on('error', () => {}).destroy()
    return { status, code: null }
  }
  const text = await answer.text()
  // Where SDKs would take a body for the answer, the code of an error is in a header.
  const code = text === '' ? headers['millrace-error'] : (JSON.parse(text) as { code?: unknown }).code
  return { status, code }
}
