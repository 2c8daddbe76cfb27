import t from 'tap'
import { createTestApi } from '../testing/create-test-api.ts'

const api = await createTestApi(t)

t.test('a query is saved, found, changed and deleted', async (t) => {
  const { call } = await api.inNewProject()
  const fields = { name: 'Trend', query: 'SELECT {days:UInt8}', parameters: { days: '7' }, chart: { kind: 'line', x: 'day', y: ['events'] } }

  const { status, body: created } = await call('POST', '~/saved_queries', fields)

  t.equal(status, 201)
  t.match(created, { ...fields, description: '', created_by: { email: 'ann@example.com' } })
  t.same((await call('GET', `~/saved_queries/${created.id}`)).body, created)
  const changed = await call('PATCH', `~/saved_queries/${created.id}`, { ...created, description: 'By day', chart: null })
  t.match(changed, { status: 200, body: { ...fields, description: 'By day', chart: null } })
  const outdated = await call('PATCH', `~/saved_queries/${created.id}`, { query: 'SELECT 2', updated_at: created.updated_at })
  t.match(outdated, { status: 409, body: { type: 'invalid_request', code: 'conflict', attr: 'updated_at' } }, 'somebody else changed it')
  t.match(await call('PATCH', `~/saved_queries/${created.id}`, { description: 'By day', updated_at: changed.body.updated_at }), { status: 200, body: { query: fields.query } })
  t.match((await call('PATCH', `~/saved_queries/${created.id}`, { name: 'Days' })).body, { name: 'Days', parameters: { days: '7' }, chart: null })
  t.equal((await call('DELETE', `~/saved_queries/${created.id}`)).status, 204)
  t.equal((await call('GET', `~/saved_queries/${created.id}`)).status, 404)
  t.equal((await call('DELETE', `~/saved_queries/${created.id}`)).status, 404)
})

t.test('they are listed by name, in pages, and searched', async (t) => {
  const { call } = await api.inNewProject()
  for (const name of ['paid users', 'funnel', 'users by day']) await call('POST', '~/saved_queries', { name, query: 'SELECT 1' })

  const { body: first } = await call('GET', '~/saved_queries?limit=2')
  t.match(first, { count: 3, results: [{ name: 'funnel' }, { name: 'paid users' }] })
  t.match((await call('GET', new URL(first.next as string).pathname + new URL(first.next as string).search)).body, { next: null, results: [{ name: 'users by day' }] })
  t.match((await call('GET', '~/saved_queries?search=users+day')).body, { count: 1, results: [{ name: 'users by day' }] })
})

t.test('who follows next misses no saved query while others are deleted', async (t) => {
  const { call } = await api.inNewProject()
  const ids: number[] = []
  for (const name of ['a', 'b', 'c', 'd']) ids.push((await call('POST', '~/saved_queries', { name, query: 'SELECT 1' })).body.id)
  const { body: first } = await call('GET', '~/saved_queries?limit=2')
  await call('DELETE', `~/saved_queries/${ids[0]}`)
  t.match((await call('GET', first.next.replace(/^https?:\/\/[^/]+/, ''))).body, { count: 3, next: null, results: [{ name: 'c' }, { name: 'd' }] })
  t.match(await call('GET', '~/saved_queries?after=W10'), { status: 400, body: { attr: 'after' } })
})

t.test('who follows next misses none of those with the same name', async (t) => {
  const { call } = await api.inNewProject()
  for (const day of [1, 2, 3]) await call('POST', '~/annotations', { name: 'deploy', at: `2026-11-0${day}T00:00:00Z` })
  const { body: first } = await call('GET', '~/annotations?limit=2')
  t.match((await call('GET', first.next.replace(/^https?:\/\/[^/]+/, ''))).body, { count: 3, next: null, results: [{ name: 'deploy', at: '2026-11-03T00:00:00.000Z' }] })
})

t.test('a name is unique in its project, and errors name the field', async (t) => {
  const one = await api.inNewProject()
  const other = await api.inNewProject()
  const { body: { id } } = await one.call('POST', '~/saved_queries', { name: 'a', query: 'SELECT 1' })
  await one.call('POST', '~/saved_queries', { name: 'b', query: 'SELECT 1' })

  t.match(await one.call('POST', '~/saved_queries', { name: 'a', query: 'SELECT 2' }), { status: 400, body: { code: 'unique', attr: 'name' } })
  t.match(await one.call('PATCH', `~/saved_queries/${id}`, { name: 'b' }), { status: 400, body: { code: 'unique', attr: 'name' } })
  t.equal((await other.call('POST', '~/saved_queries', { name: 'a', query: 'SELECT 1' })).status, 201)
  t.equal((await other.call('GET', `~/saved_queries/${id}`)).status, 404, 'another project has none of it')
  t.equal((await other.call('PATCH', `~/saved_queries/${id}`, { name: 'mine' })).status, 404)
  t.equal((await other.call('DELETE', `~/saved_queries/${id}`)).status, 404)
  const wrong: [body: object, attr: string][] = [
    [{ query: 'SELECT 1' }, 'name'], [{ name: 'c' }, 'query'], [{ name: ' ', query: 'SELECT 1' }, 'name'],
    [{ name: 'c', query: '' }, 'query'], [{ name: 'n'.repeat(201), query: 'SELECT 1' }, 'name'],
    [{ name: 'c', query: 'SELECT 1', chart: { kind: 'pie' } }, 'chart__kind'], [{ name: 'c', query: 'SELECT 1', chart: {} }, 'chart__kind'],
    [{ name: 'c', query: 'SELECT 1', parameters: { a: 1 } }, 'parameters__a'], [{ name: 'c', query: 'SELECT 1', owner: 'me' }, 'owner']
  ]
  for (const [body, attr] of wrong) t.match(await one.call('POST', '~/saved_queries', body), { status: 400, body: { attr } }, attr)
})

t.test('a project has a thousand at most', async (t) => {
  const { call, sql, projectId } = await api.inNewProject()
  await sql`INSERT INTO saved_queries (project_id, name, query) SELECT ${projectId}, 'q' || n, 'SELECT 1' FROM generate_series(1, 999) AS n`

  t.equal((await call('POST', '~/saved_queries', { name: 'last', query: 'SELECT 1' })).status, 201)
  t.match(await call('POST', '~/saved_queries', { name: 'more', query: 'SELECT 1' }), { status: 400, body: { attr: 'name' } })
})

t.test('a query stays when its owner goes', async (t) => {
  const { call, sql } = await api.inNewProject()
  const { body: { id } } = await call('POST', '~/saved_queries', { name: 'kept', query: 'SELECT 1' })

  await sql`UPDATE saved_queries SET created_by = NULL WHERE id = ${id}`

  t.match((await call('GET', `~/saved_queries/${id}`)).body, { name: 'kept', created_by: null })
})
