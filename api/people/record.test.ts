/** The record: it replays to the present, names who acted, and cannot lose a line in silence. */
import t from 'tap'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { createRandom, pickOne, type Random } from '../../test/support/random.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'
import { trimRecord } from './record-routes.ts'

const CHANGES = Number(process.env['MILLRACE_TEST_CHANGES'] ?? 150)

const api = await createTestApi(t)

/** Not recorded: secrets, what follows from use, what has a record of its own, and what only the pipeline decides. */
const NOT_RECORDED = [
  'feature_flag_changes', 'flag_revisions', 'flag_hash_keys', 'cohort_members', 'event_properties', 'persons', 'person_distinct_ids',
  'group_types', 'groups', 'persons_outbox', 'persons_projects', 'persons_warning_minutes', 'login_attempts', 'console_sessions',
  'console_login_links', 'record', 'export_windows', 'person_repairs'
]

t.test('every table that the API changes is recorded, or is known not to be', async (t) => {
  const roles = await readFile(path.join(import.meta.dirname, '../../deploy/postgres/roles.sql'), 'utf8')
  const [, granted = ''] = /GRANT SELECT, INSERT, UPDATE, DELETE ON\s+([\w\s,]+?)\s+TO millrace_api/.exec(roles) ?? []
  const recorded = new Set((await recordedTables(api)).map(({ name }) => name))
  t.same(granted.split(/\s*,\s*/).filter((name) => !recorded.has(name) && !NOT_RECORDED.includes(name)), [],
    'give these the trigger record_change')
})

t.test(`${CHANGES} random changes replay to the present state of every object`, async (t) => {
  const random = createRandom(7)
  const before = await api.sql<{ id: string }[]>`SELECT coalesce(max(id), 0)::text AS id FROM record`
  const answers = new Map<number, number>()
  for (let n = 0; n < CHANGES; n++) {
    const { status } = await changeSomething(api, random, n)
    answers.set(Math.floor(status / 100), (answers.get(Math.floor(status / 100)) ?? 0) + 1)
  }
  t.ok((answers.get(2) ?? 0) > CHANGES / 2, JSON.stringify(Object.fromEntries(answers)))
  t.notOk(answers.has(5))

  for (const { name, key, isPartial } of await recordedTables(api)) {
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
  const [unknown] = await api.sql`
    SELECT count(*) AS count FROM record WHERE id > ${before[0]?.id ?? 0}::bigint AND (user_id IS NULL OR key_id IS NULL OR address IS NULL)`
  t.same(unknown, { count: 0 }, 'each says who, by which key, and from where')
  const text = JSON.stringify(await api.sql`SELECT before, after FROM record`)
  t.notMatch(text, /sha256\$|argon2id|phx_\w{20}/, 'no secrets')
})

t.test('reading persons and SQL leaves a line, as do logins and refusals', async (t) => {
  const lines = async (query: string) => (await api.call('GET', `/api/record?${query}`)).body.results
  await api.call('GET', '~/persons?search=bo%40example')
  t.match(await lines('object=persons'), [{
    kind: 'read', user: 'ann@example.com', key_label: 'test', address: '127.0.0.1', project_id: api.projectId, rows: 0,
    detail: { method: 'GET', path: /\/persons$/, query: { search: 'bo@example' } }
  }])
  t.match(await api.call('POST', '/api/sql', { query: 'SELECT email FROM persons' }), { status: 503 }, 'not set up here')
  t.match(await lines('object=sql'), [{ kind: 'read', detail: { body: { query: 'SELECT email FROM persons' } } }])
  await api.call('GET', '~/feature_flags')
  t.same(await lines('object=feature_flags&kind=read'), [], 'nothing of persons')

  const logIn = async (payload: object) => await api.app.inject({ method: 'POST', url: '/console/session', headers: { 'millrace-console': '1' }, payload })
  await logIn({ personal_api_key: api.key })
  await logIn({ email: 'nobody@example.com', password: 'wrong password' })
  t.match(await lines('kind=login'), [{ object: 'personal_api_key', user: 'ann@example.com' }])
  t.match(await lines('kind=refusal'), [{ object: 'email', user: null, address: '127.0.0.1', detail: { email: 'nobody@example.com' } }])
  t.match(await api.call('GET', '/api/record?from=never'), { status: 400, body: { attr: 'from' } })
  const exported = await api.app.inject({ url: '/api/record/export?kind=login', headers: { authorization: `Bearer ${api.key}` } })
  t.match(exported.body.trim().split('\n').map((line) => JSON.parse(line)), [{ kind: 'login', user: 'ann@example.com' }])
  t.match(await lines('object=record'), [{ kind: 'read', detail: { path: '/api/record/export' } }])
})

t.test('lines do not change, and whoever deletes some leaves one', async (t) => {
  await t.rejects(api.sql`UPDATE record SET user_id = 2 WHERE user_id = 1`.execute(), /do not change/)
  await t.rejects(api.sql`TRUNCATE record`.execute(), /do not change/)
  const [{ count } = { count: 0 }] = await api.sql<{ count: number }[]>`SELECT count(*) AS count FROM record`
  await trimRecord(api.sql, { days: 1, now: Date.now() + 3 * 86_400_000 })
  t.match(await api.sql`SELECT kind, object, rows, detail FROM record`, [{ kind: 'trim', object: 'record', rows: count, detail: { first: String, last: String } }])
  await trimRecord(api.sql, { days: 0, now: Date.now() + 9e9 })
  t.match(await api.sql`SELECT count(*) AS count FROM record`, [{ count: 1 }])
})

t.test('an administrator of one project sees its lines only', async (t) => {
  const other = await api.inNewProject()
  await api.call('POST', '~/boards', { name: 'Here' })
  await other.call('POST', '~/boards', { name: 'There' })
  const { body: { value } } = await api.call('POST', '/api/personal_api_keys', { label: 'one', scopes: ['*'], scoped_teams: [other.projectId] })
  await api.keys.refresh()
  const { body } = await api.app.inject({ url: '/api/record', headers: { authorization: `Bearer ${value}` } })
  t.ok(body.includes('There'))
  t.notOk(body.includes('Here'))
})

const LEFT_OUT = api.sql`SELECT regexp_replace((regexp_match(prosrc, '''(\\{secure_value[^}]*\\})'))[1], '\\s', '', 'g') FROM pg_proc WHERE proname = 'record_change'`

interface RecordedTable { name: string, key: string, isPartial: boolean }

async function recordedTables ({ sql }: TestApi): Promise<RecordedTable[]> {
  const triggers = await sql<{ name: string, args: string[], definition: string }[]>`
    SELECT c.relname AS name, string_to_array(rtrim(encode(tgargs, 'escape'), '\\000'), '\\000') AS args, pg_get_triggerdef(t.oid) AS definition
    FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE tgname = 'record_change'`
  return triggers.map(({ name, args, definition }) => ({
    name, key: `concat_ws(':', ${args.map((arg) => `coalesce("${arg}"::text, '')`).join(', ')})`, isPartial: definition.includes('WHEN')
  }))
}

/** One request of a few that change something, with ids that mostly exist. */
async function changeSomething (api: TestApi, random: Random, n: number): Promise<{ status: number }> {
  const name = `${pickOne(['alpha', 'beta', 'gamma'], random)} ${n}`
  const id = 1 + Math.floor(random() * 8)
  const filters = { groups: [{ properties: [], rollout_percentage: Math.floor(random() * 101) }] }
  const trend = { kind: 'trend', series: [{ event: 'paid' }], period: { days: 7 } }
  const kinds: (() => ReturnType<TestApi['call']>)[] = [
    async () => await api.call('POST', '~/feature_flags', { key: `f${n}`, filters }),
    async () => await api.call('PATCH', `~/feature_flags/${id}`, { filters, active: Math.floor(random() * 2) === 0 }),
    async () => await api.call('DELETE', `~/feature_flags/${id}`),
    async () => await api.call('POST', '~/saved_queries', { name, query: 'SELECT 1' }),
    async () => await api.call('PATCH', `~/saved_queries/${id}`, { query: `SELECT ${n}` }),
    async () => await api.call('DELETE', `~/saved_queries/${id}`),
    async () => await api.call('POST', '~/questions', { name, definition: trend }),
    async () => await api.call('POST', '~/boards', { name }),
    async () => await api.call('PATCH', `~/boards/${id}`, { description: name }),
    async () => await api.call('POST', '/api/projects', { name }),
    async () => await api.call('PATCH', `/api/projects/${id}`, { name }),
    async () => await api.call('POST', '~/rotate_key', { grace_seconds: 60 }),
    async () => await api.call('POST', '/api/invitations', { email: `p${id}@example.com`, roles: [{ project_id: null, role: pickOne(['viewer', 'editor'], random) }] }),
    async () => await api.call('PATCH', `/api/users/${id + 1}`, { first_name: name, disabled: Math.floor(random() * 2) === 0 }),
    async () => await api.call('POST', '/api/personal_api_keys', { label: name, scopes: ['query:read'] }),
    async () => await api.call('POST', '/api/retention', { what: 'events', project_id: api.projectId, days: 1 + Math.floor(random() * 90) }),
    async () => await api.call('PATCH', '~/quota', { events_per_month: 1000 + n }),
    async () => await api.call('DELETE', '~/quota'),
    async () => await api.call('POST', '~/experiments', { name, feature_flag_key: `e${n}` }),
    async () => await api.call('PATCH', `~/experiments/${id}`, { description: name }),
    async () => await api.call('POST', '~/rules', { name, definition: { drop: true, conditions: [] } })
  ]
  return await (kinds[n % kinds.length] ?? kinds[0]!)()
}
