/** Who is found and why, the history of a person, and the record of a deletion. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { personUuid } from '../../schema/wire/identity.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createPersonalKey } from '../projects/personal-keys.ts'
import { createTestApi, send, type TestAnswer, type TestApi } from '../testing/create-test-api.ts'

const AT = Date.UTC(2026, 2, 1)

interface PersonsApi extends TestApi {
  get: (path: string, key?: string) => Promise<TestAnswer>
  createKey: (scopes: string[], projectIds: number[] | null) => Promise<string>
  insert: (distinctIds: string[], properties?: Record<string, unknown>) => Promise<string>
}

const { client } = await createTestClickHouse(t)
const now = (): number => AT
const shared = await createTestApi(t, { now, deletionWaitMs: 0, clickhouse: client })

/** A project with persons in both stores, as the pipeline writes them. */
async function startProject (api?: TestApi): Promise<PersonsApi> {
  api ??= await shared.inNewProject()
  return {
    ...api,
    async createKey (scopes, projectIds) {
      const { key } = await createPersonalKey(api.sql, { email: 'ann@example.com', label: 'p', scopes, projectIds, expiresAt: null })
      await api.keys.refresh()
      return key
    },
    get: async (path, key = api.key) => await send(api.app, {
      url: `/api/projects/${api.projectId}/persons${path}`, headers: { authorization: `Bearer ${key}` }
    }),
    async insert (distinctIds, properties = {}) {
      const uuid = personUuid(api.projectId, distinctIds[0]!)
      const version = AT * 1000
      await api.sql`WITH person AS (
          INSERT INTO persons (project_id, uuid, properties, version) VALUES (${api.projectId}, ${uuid}, ${api.sql.json(properties)}, ${version}) RETURNING id)
        INSERT INTO person_distinct_ids (project_id, distinct_id, person_id, version)
        SELECT ${api.projectId}, distinct_id, person.id, ${version} + 1000000 * position
        FROM person, unnest(${distinctIds}::text[]) WITH ORDINALITY AS ids (distinct_id, position)`
      await client.insert({
        table: 'persons', format: 'JSONEachRow',
        values: [{ project_id: api.projectId, person_id: uuid, properties: JSON.stringify(properties), is_identified: true, created_at: '2026-01-01 00:00:00', version, is_deleted: 0 }]
      })
      for (const old of distinctIds.slice(1)) {
        await client.insert({
          table: 'person_overrides', format: 'JSONEachRow',
          values: [{
            project_id: api.projectId, old_person_id: personUuid(api.projectId, old), person_id: uuid, version,
            is_deleted: 0
          }]
        })
      }
      return uuid
    }
  }
}

t.test('an exact match comes first and says what matched; each person comes once', async (t) => {
  const { get, insert, projectId } = await startProject()
  const ann = await insert(['ann', 'device-1'], { email: 'Ann@example.com', name: 'jo' })
  const jo = await insert(['jo'])
  const joanna = await insert(['joanna'], { username: 'jo' })
  const found = async (text: string): Promise<string[][]> => (await get(`/search?search=${encodeURIComponent(text)}`)).body.matches.map(({ by, uuid }: { by: string, uuid: string }) => [by, uuid])

  const byName = await found('jo')
  t.same(byName[0], ['distinct id', jo])
  t.same(byName.slice(1).sort(), [['name', ann], ['username', joanna]])
  t.same(await found('ann@EXAMPLE.com'), [['email', ann]])
  t.same(await found('joa'), [['beginning of a distinct id', joanna]])
  t.same(await found(ann.toUpperCase()), [['uuid', ann]])
  t.same(await found(personUuid(projectId, 'device-1')), [['old uuid', ann]])
  t.same(await found("' OR 1 = 1 --"), [])
  t.same(await found('%'), [])
  t.match((await get('/search?search=jo')).body, { searched_properties: true, matches: [{ name: '', distinct_ids: ['jo'] }, {}, {}] })
  t.match(await get('/search?search='), { status: 400, body: { attr: 'search' } })
})

t.test('parts of emails and names are found, as they are now, after what matches whole', async (t) => {
  const { get, insert, sql, projectId, inNewProject } = await startProject()
  const ann = await insert(['a1'], { email: 'Ann.Müller@Example.com', name: 'ÄNNE M' })
  const ben = await insert(['b1'], { username: 'example' })
  const cleo = await insert(['c1'], { email: 'cleo@example.com', name: 12 })
  const other = await insert(['d1'], { email: 'someone@elsewhere.org' })
  const found = async (text: string): Promise<string[][]> => (await get(`/search?search=${encodeURIComponent(text)}`)).body.matches.map(({ by, uuid }: { by: string, uuid: string }) => [by, uuid])

  t.same((await found('EXAMPLE'))[0], ['username', ben])
  t.same((await found('EXAMPLE')).slice(1).sort(), [['part of the email', ann], ['part of the email', cleo]].sort())
  t.same(await found('mülLER'), [['part of the email', ann]])
  t.same(await found('änne'), [['part of the name', ann]])
  await sql`UPDATE persons SET properties = '{"email": "new@elsewhere.org"}' WHERE uuid = ${cleo}`
  t.same((await found('example.com')).map(([, uuid]) => uuid), [ann], 'a copy in ClickHouse may be old')
  await client.insert({
    table: 'persons', format: 'JSONEachRow',
    values: [{ project_id: projectId, person_id: other, properties: '{}', is_identified: true, created_at: '2026-01-01 00:00:00', version: AT * 2000, is_deleted: 1 }]
  })
  await sql`DELETE FROM persons WHERE uuid = ${other}`
  t.same(await found('someone'), [])
  t.same((await (await inNewProject()).call('GET', '~/persons/search?search=example')).body.matches, [])
})

t.test('the history has the ids with their times, and the merges', async (t) => {
  const { get, insert, sql, projectId } = await startProject()
  const uuid = await insert(['ann', 'device-1'])
  const event = randomUUID()
  const at = '2026-03-01 00:00:02.000'
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{
      project_id: projectId, uuid: event, event: '$identify', distinct_id: 'ann', timestamp: at, received_at: at, properties: '{"$anon_distinct_id":"device-1"}'
    }]
  })

  const { status, body } = await get(`/${uuid}/history`)

  t.equal(status, 200)
  t.same(body, {
    first_seen: '2026-03-01T00:00:02.000Z',
    changed_at: '2026-03-01T00:00:00.000Z',
    distinct_id_count: 2,
    distinct_ids: [
      { distinct_id: 'device-1', since: '2026-03-01T00:00:02.000Z', is_first: false },
      { distinct_id: 'ann', since: '2026-03-01T00:00:01.000Z', is_first: true }
    ],
    merges: [{ uuid: event, event: '$identify', at: '2026-03-01T00:00:02.000Z', distinct_id: 'ann', other_distinct_id: 'device-1', undone_at: null }]
  })
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{
      project_id: projectId, uuid: randomUUID(), event: 'visited', distinct_id: 'device-1', timestamp: '2025-12-24 18:00:00.000', received_at: at, properties: '{}'
    }]
  })
  t.match((await get(`/${uuid}/history`)).body, { first_seen: '2025-12-24T18:00:00.000Z' }, 'a plain event that arrived late, of an id that was merged')
  const [{ created_at: known }] = await sql<[{ created_at: Date }]>`UPDATE persons SET created_at = '2025-01-01' WHERE uuid = ${uuid} RETURNING created_at`
  t.match((await get(`/${uuid}/history`)).body, { first_seen: known.toISOString() }, 'the first event may have been removed since')
  t.equal((await get(`/${randomUUID()}/history`)).status, 404)
  t.match(await get('/7/history'), { status: 400, body: { attr: 'id' } })
})

t.test('a person of thousands of long distinct ids has a history, and a request to undo the oldest merge finds it', async (t) => {
  const { get, insert, call, sql, projectId } = await startProject()
  const ids = Array.from({ length: 10_000 }, (_, i) => `${i} ${"ü'".repeat(95)}`)
  const uuid = await insert(ids.slice(0, 1))
  await sql`
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id, version)
    SELECT project_id, unnest(${ids.slice(1)}::text[]), id, version + 1 FROM persons WHERE uuid = ${uuid}`
  const [event, at] = [randomUUID(), '2025-12-24 18:00:00.000']
  await client.insert({
    table: 'events', format: 'JSONEachRow', values: [{
      project_id: projectId, uuid: event, event: '$identify', distinct_id: ids[0], timestamp: at, received_at: at, properties: JSON.stringify({ $anon_distinct_id: ids[9999] })
    }]
  })

  t.match(await get(`/${uuid}/history`), { status: 200, body: { first_seen: '2025-12-24T18:00:00.000Z', distinct_id_count: 10_000 } })
  const undone = call('POST', `~/persons/${uuid}/undo_merge`, { event })
  const recorded = waitFor(async () => (await sql`UPDATE person_repairs SET done_at = now() WHERE event_uuid = ${event} RETURNING 1`).length > 0)
  await Promise.race([undone, recorded])
  t.match(await undone, { status: 200, body: { kind: 'undo', distinct_ids: [ids[0], ids[9999]] } })
})

t.test('without ClickHouse persons are found by their ids, and the answer says so', async (t) => {
  const { get, insert } = await startProject(await createTestApi(t, { now }))
  const uuid = await insert(['ann'], { email: 'ann' })

  t.match((await get('/search?search=ann')).body, { searched_properties: false, matches: [{ by: 'distinct id', uuid }] })
  t.match(await get(`/${uuid}/history`), { status: 200, body: { distinct_id_count: 1 } })
})

t.test('scopes and projects hold', async (t) => {
  const { get, insert, createKey, projectId, inNewProject } = await startProject()
  const uuid = await insert(['ann'])
  const other = await inNewProject()
  const statuses = async (key: string): Promise<number[]> => [(await get('/search?search=ann', key)).status, (await get(`/${uuid}/history`, key)).status]

  t.same(await statuses(await createKey(['person:read'], [projectId])), [200, 200])
  t.same(await statuses(await createKey(['event:read'], null)), [403, 403])
  t.same(await statuses(await createKey(['*'], [other.projectId])), [404, 404])
  t.same(await statuses('phx_guessed'), [401, 401])
})

t.test('a deletion leaves a record, which says how far it has come', async (t) => {
  const { call, insert, inNewProject, sql } = await startProject()
  const uuid = await insert(['ann'])
  await insert(['ben'])
  t.match((await call('GET', `~/persons/deletions?person=${uuid}`)).body, { count: 0, results: [] })

  await call('DELETE', `~/persons/${uuid}?delete_events=true`)

  const { body } = await call('GET', `~/persons/deletions?person=${uuid}`)
  t.match(body, { count: 1, results: [{ id: Number, person: uuid, with_events: true, requested_at: /Z$/, done_at: null, swept_at: null }] })
  await sql`UPDATE person_deletions SET done_at = now(), swept_at = now()`
  t.match((await call('GET', '~/persons/deletions')).body, { count: 1, results: [{ done_at: /Z$/, swept_at: /Z$/ }] })
  t.match((await (await inNewProject()).call('GET', '~/persons/deletions')).body, { count: 0 }, 'not those of another project')
  t.match(await call('GET', '~/persons/deletions?person=ann'), { status: 400, body: { attr: 'person' } })
})
