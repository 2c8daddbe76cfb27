/** Cohorts are refreshed by the task, whole, for questions (ClickHouse) and for flags (Postgres). */
import t from 'tap'
import { membersSql } from '../../engines/questions/question-sql.ts'
import { createLogger } from '../../platform/logger.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { createListCohorts } from './cohort-task.ts'

const [{ sql }, { url, client }] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
const list = createListCohorts({ sql, clickhouse: client, database: new URL(url).pathname.slice(1), logger: createLogger({ component: 'test', level: 'silent' }) })
const [{ id: project }] = await sql<[{ id: number }]>`INSERT INTO projects (name) VALUES ('cohorts') RETURNING id`

async function refresh (): Promise<void> {
  for (const task of await list()) await task.beside?.(new AbortController().signal)
}

async function ask (query: string): Promise<string[]> {
  const result = await client.query({ query, format: 'JSONCompactEachRow' })
  return (await result.json<string[]>()).map(([text]) => String(text)).sort()
}

const membersOf = async (id: number): Promise<string[]> =>
  await ask(`SELECT toString(person_id) FROM ${membersSql(id, project)} WHERE person_id != toUUID('00000000-0000-0000-0000-000000000000')`)

const peopleOf = async (id: number): Promise<string[]> =>
  (await sql<{ person: string }[]>`SELECT person FROM cohort_people WHERE cohort_id = ${id} ORDER BY person`).map(({ person }) => person)

async function send (event: string, ...ids: string[]): Promise<void> {
  const now = new Date(Date.now() - 60_000).toISOString().slice(0, -1).replace('T', ' ')
  const values = ids.map((id) => ({ project_id: project, uuid: crypto.randomUUID(), event, distinct_id: id, timestamp: now, received_at: now, properties: '{}' }))
  await client.insert({ table: 'events', values, format: 'JSONEachRow' })
}

const personOf = async (id: string): Promise<string> =>
  (await ask(`SELECT DISTINCT toString(person_id) FROM events WHERE project_id = ${project} AND distinct_id = '${id}'`))[0]!

async function create (row: { filters?: object, question?: object, is_static?: boolean }): Promise<number> {
  const json = {
    ...row.filters && { filters: sql.json(row.filters) }, ...row.question && { question: sql.json(row.question) }
  }
  const [{ id }] = await sql<[{ id: number }]>`
    INSERT INTO cohorts ${sql({ project_id: project, name: 'c', is_static: row.is_static ?? false, ...json })} RETURNING id`
  return id
}

const stateOf = async (id: number): Promise<Record<string, unknown> | undefined> => (await sql`SELECT * FROM cohort_refreshes WHERE cohort_id = ${id}`)[0]

const askFor = async (id: number): Promise<unknown> => await sql`UPDATE cohorts SET refresh_requested_at = now() WHERE id = ${id}`

const paid = { type: 'behavioral', key: 'paid', value: 'performed_event', time_value: 1, time_interval: 'day' }

t.test('a cohort of behavior has who did it, at once when asked, and for flags', async (t) => {
  await send('paid', 'a', 'b')
  await send('seen', 'c')
  const [a, b, c] = await Promise.all(['a', 'b', 'c'].map(personOf))
  const payers = await create({ filters: { type: 'AND', values: [paid] } })
  const others = await create({ filters: { type: 'AND', values: [{ ...paid, key: 'seen' }, { type: 'cohort', value: payers, operator: 'not_in' }] } })
  const isolated = { clickhouse: await ask(`SELECT toString(count()) FROM cohort_members WHERE cohort_id = ${payers}`) }
  t.same(isolated.clickhouse, ['0'])
  await t.rejects(membersOf(payers), /has not been computed yet/, 'unknown is not empty')
  const revision = async (): Promise<number> => Number((await sql`SELECT revision FROM flag_revisions WHERE project_id = ${project}`)[0]?.['revision'])
  const before = await revision()
  await refresh()
  t.ok(await revision() > before, 'flags are read again, which could not be computed')
  t.same(await membersOf(payers), [a, b].sort())
  t.same(await peopleOf(payers), [a, b].sort())
  t.same([await membersOf(others), await peopleOf(others)], [[c], [c]])
  t.match(await stateOf(payers), { people: 2, error: '' })

  await send('paid', 'c')
  t.same(await list(), [], 'nothing is due')
  await askFor(payers)
  const asked = await revision()
  await refresh()
  t.equal(await revision(), asked, 'and not each time')
  t.same([await membersOf(payers), await peopleOf(payers)], [[a, b, c].sort(), [a, b, c].sort()])

  // Merged: c belongs to a now.
  await client.insert({ table: 'person_overrides', format: 'JSONEachRow', values: [{ project_id: project, old_person_id: c, person_id: a, version: 2, is_deleted: 0 }] })
  t.same([...new Set(await membersOf(payers))], [a, b].sort(), 'before the next refresh, too')
  await askFor(payers)
  await refresh()
  t.same([await membersOf(payers), await peopleOf(payers)], [[a, b].sort(), [a, b].sort()])
})

t.test('a number of a question is found again, a list is copied, and properties need no list for flags', async (t) => {
  const [b] = [await personOf('b')]
  const definition = { kind: 'trend', version: 1, range: { last: 2, unit: 'day' }, series: [{ event: 'paid', measure: 'people' }] }
  const number = await create({ question: { definition, cell: {}, place: { kind: 'trend', series: 0, isPrevious: false, start: null, tag: '' } } })
  const listed = await create({ is_static: true })
  await sql`WITH p AS (INSERT INTO persons (project_id, uuid, properties) VALUES (${project}, ${b!}, '{"plan": "pro"}') RETURNING id)
    INSERT INTO cohort_members (cohort_id, person_id) SELECT ${listed}, id FROM p`
  await client.insert({
    table: 'persons', format: 'JSONEachRow',
    values: [{ project_id: project, person_id: b, properties: JSON.stringify({ plan: 'pro', at: new Date().toISOString(), version: 'v1.10', beta: 'TRUE' }), is_identified: true, created_at: '2026-01-01 00:00:00', version: 1, is_deleted: 0 }]
  })
  const pro = await create({ filters: { properties: { type: 'OR', values: [{ key: 'plan', value: 'pro', type: 'person' }] } } })
  const of = async (...conditions: object[]): Promise<number> => await create({ filters: { type: 'AND', values: conditions.map((each) => ({ ...each, type: 'person' })) } })
  const dated = await of({ key: 'at', operator: 'is_date_after', value: '-1d' }, { key: 'version', operator: 'semver_gt', value: '1.9' }, { key: 'beta', operator: 'exact', value: [] })
  const later = await of({ key: 'at', operator: 'is_date_before', value: '-1d' })
  const unknown = await of({ key: 'at', operator: 'resembles', value: '-1d' })
  await refresh()
  t.same([await membersOf(dated), await membersOf(later)], [[b], []])
  t.match([await stateOf(dated), await stateOf(later)], [{ people: 1, error: '' }, { people: 0, error: '' }])
  t.equal((await membersOf(number)).length, 2)
  t.equal((await peopleOf(number)).length, 2)
  t.same([await membersOf(listed), await membersOf(pro)], [[b], [b]])
  t.same([await peopleOf(listed), await peopleOf(pro)], [[], []], 'flags know these without')
  t.match(await stateOf(unknown), { refreshed_at: null, people: null, error: /operator/ }, 'the reason is there, and no number')
  const empty = await create({ filters: { type: 'AND', values: [{ ...paid, key: 'never' }] } })
  await refresh()
  t.same(await membersOf(empty), [])
  t.match(await stateOf(empty), { people: 0 })
  const ever = await create({ filters: { type: 'AND', values: [{ ...paid, time_value: 10_000, time_interval: 'year' }] } })
  await refresh()
  t.equal((await membersOf(ever)).length, 2, 'a window from before all events')
  const first = { kind: 'retention', version: 1, range: { last: 1, unit: 'day' }, interval: 'day', start: { event: 'paid' } }
  const start = new Date().toISOString().slice(0, 10)
  await sql`INSERT INTO retention (project_id, what, days) VALUES (${project}, 'events', 30)`
  const began = await create({ question: { definition: { ...first, range: { last: 2, unit: 'day' } }, cell: {}, place: { kind: 'retention', start, returned: 0 } } })
  await refresh()
  t.notOk((await membersOf(began)).includes(b!), 'as in the answer, who is known from before the events that are kept is not new')
  await sql`DELETE FROM retention`
})

t.test('a refresh that fails keeps the members, takes its share of time, and leaves nothing behind', async (t) => {
  const id = await create({ filters: { type: 'AND', values: [paid] } })
  await refresh()
  const members = await membersOf(id)
  const [{ person }] = await sql<[{ person: string }]>`SELECT person FROM cohort_people WHERE cohort_id = ${id} LIMIT 1`
  const done = new Date(Date.now() + 60_000)
  const deletion = { project_id: project, version: 0, outbox_id: 0, with_events: true, done_at: done }
  await sql`INSERT INTO person_deletions ${sql({ ...deletion, person_uuid: person, person_uuids: [person] })}`
  await askFor(id)
  await refresh()
  t.match(await stateOf(id), { error: /deleted meanwhile/, people: members.length })
  t.same(await membersOf(id), members)
  const unfinished = { project_id: project, cohort_id: id, person_id: person, size: 7 }
  const old = Date.now() - 3_600_000
  await client.insert({ table: 'cohort_members', format: 'JSONEachRow', values: [{ ...unfinished, version: old }, { ...unfinished, version: old + 1 }] })
  await askFor(id)
  await refresh()
  t.same(await ask(`SELECT toString(count()) FROM cohort_members WHERE cohort_id = ${id} AND version <= ${old}`), ['0'], 'what never became whole')
  t.not((await stateOf(id))?.['took'], 0)
  await sql`UPDATE person_deletions SET person_uuids = ${[crypto.randomUUID()]}`
  await askFor(id)
  await refresh()
  t.match(await stateOf(id), { error: '' }, 'others were deleted')
  await sql`DELETE FROM person_deletions`
})

t.test('members that are not in this ClickHouse are found again at once', async (t) => {
  const id = await create({ filters: { type: 'AND', values: [paid] } })
  await refresh()
  const [version] = await ask(`SELECT DISTINCT toString(version) FROM cohort_members WHERE cohort_id = ${id}`)
  await client.command({ query: `ALTER TABLE cohort_members DROP PARTITION (${id}, ${version})` })
  t.same(await list(), [])
  const moved = createListCohorts({ sql, clickhouse: client, database: new URL(url).pathname.slice(1), logger: createLogger({ component: 'test', level: 'silent' }) })
  for (const task of await moved()) await task.beside?.(new AbortController().signal)
  t.equal((await membersOf(id)).length, 2)
})

t.test('a version is dropped long after a newer one came, and a deleted cohort at once', async (t) => {
  const id = await create({ filters: { type: 'AND', values: [paid] } })
  const old = { project_id: project, cohort_id: id, person_id: crypto.randomUUID(), size: 1 }
  const ages = [7_200_000, 3_600_000, 60_000]
  await client.insert({ table: 'cohort_members', format: 'JSONEachRow', values: ages.map((age) => ({ ...old, version: Date.now() - age })) })
  await refresh()
  const versions = `SELECT DISTINCT toString(version) FROM cohort_members WHERE cohort_id = ${id}`
  t.equal((await ask(versions)).length, 3, 'a query may still read the one that was the newest a minute ago')
  await sql`UPDATE cohorts SET deleted = true WHERE id = ${id}`
  await refresh()
  t.same([await ask(versions), await peopleOf(id), await stateOf(id)], [[], [], undefined])
})
