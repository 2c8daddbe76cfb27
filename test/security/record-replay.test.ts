/** The record replays to the present state of every object, whether API, console or command line changed it. */
import t from 'tap'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { startApi } from '../../cli/testing/run-captured.ts'
import { createRandom, pickOne, type Random } from '../support/random.ts'

const CHANGES = Number(process.env['MILLRACE_TEST_CHANGES'] ?? 200)
const AT_HOME = '198.51.100.9'

const api = await startApi(t)

/** Not recorded: secrets, what follows from use, what has a record of its own, and what only the pipeline decides. */
const NOT_RECORDED = [
  'feature_flag_changes', 'flag_revisions', 'flag_hash_keys', 'cohort_members', 'event_properties', 'persons', 'person_distinct_ids',
  'group_types', 'groups', 'persons_outbox', 'persons_projects', 'persons_warning_minutes', 'login_attempts', 'console_sessions',
  'console_login_links', 'record', 'export_windows', 'person_repairs'
]

t.test('every table that the API changes is recorded, or is known not to be', async (t) => {
  const roles = await readFile(path.join(import.meta.dirname, '../../deploy/postgres/roles.sql'), 'utf8')
  const [, granted = ''] = /GRANT SELECT, INSERT, UPDATE, DELETE ON\s+([\w\s,]+?)\s+TO millrace_api/.exec(roles) ?? []
  const recorded = new Set((await recordedTables()).map(({ name }) => name))
  t.same(granted.split(/\s*,\s*/).filter((name) => !recorded.has(name) && !NOT_RECORDED.includes(name)), [],
    'give these the trigger record_change')
})

type Method = 'POST' | 'PATCH' | 'DELETE'
type Change = readonly [method: Method, path: string, body?: object]

interface Origin {
  /** @returns whether the change was made; refused ones leave no line. */
  send: (...change: Change) => Promise<boolean>
  /** What its lines name: the user, the key or none, the address. */
  actor: [number, string | null, string]
}

t.test(`${CHANGES} random changes replay to the present state of every object`, async (t) => {
  const random = createRandom(7)
  await api.sql`INSERT INTO event_definitions (project_id, name) SELECT ${api.projectId}, 'event ' || n FROM generate_series(1, 8) AS n`
  await api.sql`INSERT INTO property_definitions (project_id, name, type) SELECT ${api.projectId}, 'property ' || n, 'event' FROM generate_series(1, 8) AS n`
  const origins = await openOrigins()
  const done = { api: 0, console: 0, cli: 0 }
  for (let n = 0; n < CHANGES; n++) {
    const [name, { send, actor }] = pickOne([...origins], random)
    const change = await chooseChange(random, n)
    const before = await lastLine()
    const isDone = await send(...change)
    if (isDone) done[name]++
    const actors = await api.sql<{ actor: Origin['actor'] }[]>`
      SELECT DISTINCT jsonb_build_array(user_id, key_id, address) AS actor FROM record WHERE id > ${before}::bigint`
    // A change to what is so already leaves no line.
    t.ok(actors.length <= (isDone ? 1 : 0), `${name}: ${change.join(' ')}`)
    for (const line of actors) t.same(line.actor, actor, `${name} ${change[1]}: who, by which key, and from where`)
  }
  for (const [name, count] of Object.entries(done)) t.ok(count > CHANGES / 8, `${count} by ${name}`)

  for (const { name, key, isPartial } of await recordedTables()) {
    const present = await api.sql<{ id: string, row: object }[]>`
      SELECT ${api.sql.unsafe(key)} AS id, to_jsonb(t) - (${LEFT_OUT})::text[] AS row FROM ${api.sql.unsafe(`"${name}"`)} t`
    const replayed = new Map<string, object | null>()
    const lines = await api.sql<{ id: string, before: object | null, after: object | null }[]>`
      SELECT object_id AS id, before, after FROM record WHERE object = ${name} ORDER BY record.id`
    for (const { id, before, after } of lines) {
      if (replayed.has(id)) t.same(before, replayed.get(id), `${name} ${id}: before is what was`)
      replayed.set(id, after)
    }
    const rows = present.filter(({ id }) => !isPartial || replayed.has(id))
    const left = [...replayed].filter(([, row]) => row !== null)
    t.same(Object.fromEntries(left), Object.fromEntries(rows.map(({ id, row }) => [id, row])), name)
  }
  const changed = await api.sql<{ object: string }[]>`SELECT DISTINCT object FROM record WHERE kind IN ('create', 'change', 'delete')`
  t.ok(changed.length >= 20, `of ${changed.map(({ object }) => object).join(', ')}`)
  const text = JSON.stringify(await api.sql`SELECT before, after FROM record`)
  t.notMatch(text, /sha256\$|argon2id|phx_\w{20}|hooks\.example/, 'no secrets')
})

async function openOrigins (): Promise<Map<'api' | 'console' | 'cli', Origin>> {
  const { body: { user, link } } = await api.call('POST', '/api/invitations', { email: 'console@example.com', roles: [{ project_id: null, role: 'admin' }] })
  const ofConsole = { 'millrace-console': '1', 'sec-fetch-site': 'same-origin', 'x-forwarded-for': AT_HOME }
  const login = await api.app.inject({
    method: 'POST', url: '/console/session', headers: ofConsole, payload: { invitation: link.split('=').at(-1), password: 'correct horse battery' }
  })
  const cookie = [login.headers['set-cookie']].flat().join().split(';')[0] ?? ''
  const { body: made } = await api.call('POST', '/api/personal_api_keys', { label: 'of the command line', scopes: ['*'] })
  const [own] = await api.sql<{ id: string }[]>`SELECT id FROM personal_api_keys WHERE label = 'test'`
  return new Map<'api' | 'console' | 'cli', Origin>([
    ['api', {
      send: async (...change) => (await api.call(...change)).status < 300, actor: [api.user.id, own?.id ?? '', '127.0.0.1']
    }],
    ['console', {
      send: async (method, url, body) => (await api.app.inject({
        method, url, headers: { ...ofConsole, cookie }, ...body === undefined ? {} : { payload: body }
      })).statusCode < 300,
      actor: [user.id, null, AT_HOME]
    }],
    ['cli', {
      send: async (...change) => (await api.run('--key', made.value, ...toCommand(change))).code === 0, actor: [api.user.id, made.id, '127.0.0.1']
    }]
  ])
}

/** The command for a change; `request` where it has none of its own. */
function toCommand ([method, path, body = {}]: Change): string[] {
  const fields: Record<string, any> = body
  if (path === '/api/projects') return ['projects', 'create', fields.name]
  if (path === '/api/invitations') return ['users', 'invite', fields.email, '--role', fields.roles[0].role]
  if (path.endsWith('/rotate_key')) return ['projects', 'rotate-key', String(api.projectId), '--grace', '1m']
  if (path === '/api/personal_api_keys') return ['keys', 'create', '--label', fields.label, '--scope', fields.scopes.join()]
  if (method === 'DELETE' && path.includes('/personal_api_keys/')) return ['keys', 'revoke', path.split('/').at(-1) ?? '']
  return ['request', method, path, ...method === 'DELETE' ? [] : ['--data', JSON.stringify(body)]]
}

/** One of many changes, with ids that mostly exist. */
async function chooseChange (random: Random, n: number): Promise<Change> {
  const name = `${pickOne(['alpha', 'beta', 'gamma'], random)} ${n}`
  const project = `/api/projects/${api.projectId}`
  const id = 1 + Math.floor(random() * 8)
  const any = (of: string): string => `${project}/${of}/${id}`
  const filters = { groups: [{ properties: [], rollout_percentage: Math.floor(random() * 101) }] }
  const definition = { kind: 'trend', version: 1, series: [{ event: 'paid' }] }
  const [row] = await api.sql<{ event: string, property: string, key: string }[]>`
    SELECT (SELECT id FROM event_definitions ORDER BY random() LIMIT 1) AS event, (SELECT id FROM property_definitions ORDER BY random() LIMIT 1) AS property,
      coalesce((SELECT id FROM personal_api_keys WHERE label ~ '^(alpha|beta|gamma)' ORDER BY random() LIMIT 1), gen_random_uuid()) AS key`
  const changes: Change[] = [
    ['POST', `${project}/feature_flags`, { key: `f${n}`, filters }], ['PATCH', any('feature_flags'), { filters, active: random() < 0.5 }],
    ['DELETE', any('feature_flags')],
    ['POST', `${project}/cohorts`, { name, filters: { type: 'AND', values: [{ key: 'plan', value: ['pro'], operator: 'exact', type: 'person' }] } }],
    ['DELETE', any('cohorts')],
    ['POST', `${project}/saved_queries`, { name, query: 'SELECT 1' }], ['PATCH', any('saved_queries'), { query: `SELECT ${n}` }], ['DELETE', any('saved_queries')],
    ['POST', `${project}/questions`, { name, definition }], ['PATCH', any('questions'), { description: name }],
    ['POST', `${project}/boards`, { name }], ['PATCH', any('boards'), { description: name }], ['POST', `${any('boards')}/links`, {}],
    ['POST', '/api/projects', { name }], ['PATCH', `/api/projects/${id}`, { name }], ['POST', `${project}/rotate_key`, { grace_seconds: 60 }],
    ['POST', '/api/invitations', { email: `p${id}@example.com`, roles: [{ project_id: null, role: pickOne(['viewer', 'editor'], random) }] }],
    ['PATCH', `/api/users/${id + 2}`, { first_name: name, disabled: random() < 0.5 }],
    ['PATCH', `/api/users/${id + 2}`, { roles: [{ project_id: api.projectId, role: 'viewer', sees_persons: random() < 0.5 }] }],
    ['POST', '/api/users', { email: `account${n}@example.com` }],
    ['POST', '/api/personal_api_keys', { label: name, scopes: ['query:read'] }], ['DELETE', `/api/personal_api_keys/${row?.key}`],
    ['POST', '/api/retention', { what: 'events', project_id: api.projectId, days: 1 + Math.floor(random() * 90) }],
    ['PATCH', `${project}/quota`, { events_per_month: 1000 + n }], ['DELETE', `${project}/quota`],
    ['POST', `${project}/experiments`, { name, feature_flag_key: `e${n}` }], ['PATCH', any('experiments'), { description: name }],
    ['POST', `${project}/rules`, { name, definition: { drop: true, conditions: [] } }], ['PATCH', any('rules'), { active_version: 1 }],
    ['POST', `${project}/event_schemas`, { event: name, schema: {} }], ['PATCH', any('event_schemas'), { schema: { title: name } }],
    ['PATCH', `${project}/event_definitions/${row?.event}`, { description: name }], ['PATCH', `${project}/property_definitions/${row?.property}`, { description: name }],
    ['POST', `${project}/targets`, { name, kind: 'webhook', url: 'https://hooks.example/secret' }], ['PATCH', any('targets'), { enabled: random() < 0.5 }],
    ['POST', `${project}/alerts`, { name, about: { kind: 'question', id }, every: 'day', condition: { is: 'above', value: n }, targets: [id] }],
    ['POST', `${project}/exports`, { name, schedule: 'day', target: { kind: 's3', endpoint: 'http://127.0.0.1:9', bucket: 'b', access_key_id: 'k', secret_access_key: 'argon2id' } }],
    ['PATCH', any('exports'), { paused: random() < 0.5 }]
  ]
  return changes[n % changes.length] ?? pickOne(changes, random)
}

async function lastLine (): Promise<string> {
  const [last] = await api.sql<{ id: string }[]>`SELECT coalesce(max(id), 0)::text AS id FROM record`
  return last?.id ?? '0'
}

const LEFT_OUT = api.sql`SELECT regexp_replace((regexp_match(prosrc, '''(\\{secure_value[^}]*\\})'))[1], '\\s', '', 'g') FROM pg_proc WHERE proname = 'record_change'`

interface RecordedTable { name: string, key: string, isPartial: boolean }

async function recordedTables (): Promise<RecordedTable[]> {
  const triggers = await api.sql<{ name: string, args: string[], definition: string }[]>`
    SELECT c.relname AS name, string_to_array(rtrim(encode(tgargs, 'escape'), '\\000'), '\\000') AS args, pg_get_triggerdef(t.oid) AS definition
    FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE tgname = 'record_change'`
  return triggers.map(({ name, args, definition }) => ({
    name, key: `concat_ws(':', ${args.map((arg) => `coalesce("${arg}"::text, '')`).join(', ')})`, isPartial: definition.includes('WHEN')
  }))
}
