import { randomUUID } from 'node:crypto'
import t from 'tap'
import { personUuid } from '../../schema/wire/identity.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'
import { recordErasure } from './erase-persons.ts'

async function insertPerson ({ sql, projectId }: TestApi, distinctId: string): Promise<string> {
  const uuid = personUuid(projectId, distinctId)
  await sql`WITH person AS (INSERT INTO persons (project_id, uuid) VALUES (${projectId}, ${uuid}) RETURNING id)
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${projectId}, ${distinctId}, id FROM person`
  return uuid
}

t.test('deletes a person once, and waits until the pipeline has deleted its events', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client })
  const uuid = await insertPerson(api, 'jo')

  const deleted = api.call('DELETE', `~/persons/${uuid}?delete_events=true`)
  await waitFor(async () => (await api.sql`UPDATE person_deletions SET done_at = now() WHERE person_uuid = ${uuid} AND with_events RETURNING 1`).length > 0)

  t.match(await deleted, { status: 204, body: undefined })
  t.match(await api.call('DELETE', `~/persons/${uuid}/`), { status: 404, body: { code: 'not_found' } })
})

t.test('records a deletion without the pipeline and ClickHouse, and says that it is not done', async (t) => {
  const api = await createTestApi(t, { deletionWaitMs: 300 })
  const uuid = await insertPerson(api, 'jo')

  t.match(await api.call('DELETE', `~/persons/${uuid}`), { status: 202 })
  t.equal((await api.sql`SELECT 1 FROM persons`).length, 0)
  t.match(await api.call('DELETE', `~/persons/${uuid}`), { status: 503, body: { code: 'clickhouse_unavailable' } })
})

t.test('the record of an erasure and its sweep end together', async (t) => {
  const { sql, projectId, call } = await createTestApi(t)
  const erased = await recordErasure(sql, projectId, { ids: ['jo'] })

  t.equal((await call('DELETE', `~/erasures/${erased?.id}`)).status, 204)
  t.match(await sql`SELECT is_erasure FROM person_deletions`, [{ is_erasure: false }])
  t.equal((await call('DELETE', `~/erasures/${erased?.id}`)).status, 404)
})

t.test('names ClickHouse when a merge cannot be undone without it', async (t) => {
  const api = await createTestApi(t)
  const uuid = await insertPerson(api, 'jo')

  t.match(await api.call('POST', `~/persons/${uuid}/undo_merge`, { event: randomUUID() }), { status: 503, body: { code: 'clickhouse_unavailable' } })
})

t.test('lists persons page by page, newest first, and finds one by distinct id or its beginning', async (t) => {
  const api = await createTestApi(t)
  for (const id of ['ann', 'ben', 'bea']) await insertPerson(api, id)
  await api.sql`UPDATE persons SET properties = ${api.sql.json({ email: 'ann@example.com', plan: 'pro' })}, is_identified = true
    WHERE uuid = ${personUuid(api.projectId, 'ann')}`
  await api.sql`UPDATE persons SET properties = '{"account": 12345678901234567890}' WHERE uuid = ${personUuid(api.projectId, 'ben')}`
  const other = await api.inNewProject()
  await insertPerson(other, 'not theirs')
  const names = async (query: string): Promise<string[]> =>
    (await api.call('GET', `~/persons/?${query}`)).body.results.map(({ name }: { name: string }) => name)

  const { body: first } = await api.call('GET', '~/persons?limit=2')
  const { body: second } = await api.call('GET', new URL(first.next).pathname + new URL(first.next).search)

  t.match(first, { count: 3, previous: null, results: [{ name: 'bea' }, { name: 'ben' }] })
  t.match(second, { count: 3, next: null, results: [{ name: 'ann@example.com' }] })
  t.match(second.results[0], {
    id: personUuid(api.projectId, 'ann'), distinct_ids: ['ann'], properties: { plan: 'pro' }, is_identified: true, created_at: /Z$/
  })
  t.same(await names('distinct_id=ben'), ['ben'])
  t.same(await names('distinct_id=be'), [])
  t.same(await names('search=be'), ['bea', 'ben'])
  const whole = await api.app.inject({
    url: `/api/projects/${api.projectId}/persons/${personUuid(api.projectId, 'ben')}/`, headers: { authorization: `Bearer ${api.key}` }
  })
  t.match(whole.body, '"account":12345678901234567890', 'with all digits')
  t.match(await api.call('GET', `~/persons/${personUuid(other.projectId, 'not theirs')}`), { status: /^(404|503)$/ })
  t.match(await api.call('GET', '~/persons?after=forged'), { status: 400, body: { attr: 'after' } })
})

t.test('refuses an invalid id, an invalid delete_events and a period that ends before it begins', async (t) => {
  const api = await createTestApi(t)

  t.match(await api.call('DELETE', '~/persons/jo'), { status: 400, body: { type: 'validation_error', attr: 'id' } })
  t.match(await api.call('DELETE', `~/persons/${randomUUID()}?delete_events=perhaps`),
    { status: 400, body: { attr: 'delete_events' } })
  for (const filter of ['persons', 'events']) {
    const body = { [filter]: { from: '2026-03-05T10:00:00Z', to: '2026-03-05T09:00:00Z' }, dry_run: true }
    t.match(await api.call('POST', '~/erasures', body), { status: 400, body: { attr: `${filter}__to` } })
  }
})
