import t from 'tap'
import { createSessions } from '../../console/server/sessions.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { createFirstProject } from './create-first-project.ts'
import { prepareDatabases } from './prepare-databases.ts'

async function prepare (databaseUrl: string, clickhouseUrl: string): Promise<unknown> {
  return await prepareDatabases({
    databaseUrl, clickhouseUrl, cluster: '', createDatabase: false, projectApiKey: 'phc_a', personalApiKey: 'phx_a'
  }, { env: process.env, signal: new AbortController().signal })
}

t.test('a start on databases of a newer version ends with one sentence, before any tier', async (t) => {
  const [{ sql, url }, clickhouse] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
  await sql`INSERT INTO schema_versions VALUES ('9.1.0', '9.1.0', '{}')`

  await t.rejects(prepare(url, clickhouse.url), {
    code: 'MILLRACE_DATABASE_NEWER', message: /^the database was migrated by Millrace 9\.1\.0 \(commit unknown\), .*before the upgrade$/
  })
})

t.test('a server of one\'s own that refuses or does not answer is named by its setting, without a stack', async (t) => {
  const [postgres, clickhouse] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
  const missing = new URL(postgres.url)
  missing.pathname = '/no_such_database'
  const stranger = new URL(clickhouse.url)
  stranger.password = 'wrong'

  const code = 'MILLRACE_DATABASE_REFUSED'
  await t.rejects(prepare(missing.href, clickhouse.url), { code, message: /does not exist .*correct DATABASE_URL/ })
  await t.rejects(prepare('postgres://a@127.0.0.1:1/a', clickhouse.url), { code, message: /does not answer .*correct DATABASE_URL/ })
  await t.rejects(prepare(postgres.url, stranger.href), { code, message: /correct CLICKHOUSE_URL/ })
})

const keys = { projectApiKey: 'phc_first', personalApiKey: 'phx_first' }

t.test('creates project 1, its key and a personal key in an empty database', async (t) => {
  const { url, sql } = await createTestPostgres(t)

  const project = await createFirstProject({ databaseUrl: url, ...keys })

  t.match(project, { projectApiKey: 'phc_first', knowsPersonalKey: true, created: true, loginLink: /^[\w-]{43}$/ })
  t.match(await createSessions({ sql, now: Date.now }).redeem(project.loginLink!), /^[\w-]{43}$/, 'the link logs in')
  t.same(await sql`SELECT id FROM projects`, [{ id: 1 }])
  t.same(await sql`SELECT api_key, project_id, kind FROM project_api_keys`, [
    { api_key: 'phc_first', project_id: 1, kind: 'project' }
  ])
  t.match(await sql`SELECT secure_value, mask_value, scopes FROM personal_api_keys`, [
    { secure_value: /^sha256\$[0-9a-f]{64}$/, mask_value: 'phx_...irst', scopes: ['*'] }
  ])
})

t.test('lets the next project be number 2', async (t) => {
  const { url, sql } = await createTestPostgres(t)
  await createFirstProject({ databaseUrl: url, ...keys })

  t.same(await sql`INSERT INTO projects (name) VALUES ('next') RETURNING id`, [{ id: 2 }])
})

t.test('changes nothing in a database with projects, and says which keys count there', async (t) => {
  const { url, sql } = await createTestPostgres(t)
  await createFirstProject({ databaseUrl: url, ...keys })

  const again = await createFirstProject({ databaseUrl: url, projectApiKey: 'phc_new', personalApiKey: 'phx_new' })

  t.same(again, { projectApiKey: 'phc_first', knowsPersonalKey: false, created: false, loginLink: null })
  t.same(await sql`SELECT count(*)::int AS keys FROM project_api_keys`, [{ keys: 1 }])
})

t.test('creates one project when several stacks start at once', async (t) => {
  const { url, sql } = await createTestPostgres(t)

  const projects = await Promise.all(Array.from({ length: 5 }, (_, index) => createFirstProject({
    databaseUrl: url, projectApiKey: `phc_${index}`, personalApiKey: `phx_${index}`
  })))

  t.equal(projects.filter(({ created }) => created).length, 1)
  t.same(await sql`SELECT count(*)::int AS projects FROM projects`, [{ projects: 1 }])
})
