import t from 'tap'
import { createSessions } from '../../console/server/sessions.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { createFirstProject } from './create-first-project.ts'

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
