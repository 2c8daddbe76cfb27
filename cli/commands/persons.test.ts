import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { personUuid } from '../../platform/persons/person-ids.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { type Captured, startApi } from '../testing/run-captured.ts'

const JO = personUuid(1, 'jo')

t.test('lists persons, searches them, and shows one', async (t) => {
  const { run } = await startWithJoAndAnn(t)

  t.match(JSON.parse((await run('persons list --project 1 --json')).out), [
    { distinct_ids: ['ann'] }, { id: JO, distinct_ids: ['jo', 'phone'], is_identified: true }
  ])
  t.match(JSON.parse((await run('persons list --project 1 --search pho --json')).out), [{ id: JO }])
  t.match(JSON.parse((await run('persons search phone --project 1 --json')).out), [{ uuid: JO, by: 'distinct id' }])
  t.same(JSON.parse((await run('persons list --project 2 --json')).out), [])
  t.match((await run('persons show --project 1 --distinct-id phone')).out, /distinct_ids +jo, phone\n/)
  t.match(JSON.parse((await run(`persons show --project 1 ${personUuid(1, 'phone')} --json`)).out), {
    id: JO, properties: { email: 'jo@example.com' }
  }, 'by an id from before the merge')
})

t.test('deletes a person with the events of all its distinct ids, and reports when nothing is left', async (t) => {
  const { run, clickhouse, sql } = await startWithJoAndAnn(t)
  const line = `persons delete --project 1 ${personUuid(1, 'phone')} --with-events --json`

  const asked = await run(line)
  t.match(asked, { code: 0, err: /add --yes/ })
  t.equal(await countEvents(clickhouse), 6)
  const deleted = await run(`${line} --yes`)

  t.match(JSON.parse(deleted.out), { person: JO, with_events: true, done: true })
  t.equal(await countEvents(clickhouse), 2)
  t.match(await sql`SELECT distinct_id FROM person_distinct_ids`, [{ distinct_id: 'ann' }])
  t.match(await run(`${line} --yes`), { code: 1, err: /has no person/ })
})

t.test('says that a deletion is recorded but not done while ClickHouse is unavailable', async (t) => {
  const { run, sql } = await startWithJoAndAnn(t, false)

  const { code, err } = await run(`persons delete --project 1 ${JO} --wait 1s --yes`)

  t.equal(code, 1)
  t.match(err, /the pipeline will delete the rest/)
  t.match(await sql`SELECT done_at FROM person_deletions`, [{ done_at: null }])
  t.equal((await sql`SELECT 1 FROM persons`).length, 1)
})

/** Jo, whose phone was merged into her, and Ann; two events of each distinct id. */
async function startWithJoAndAnn (t: TestContext, withClickHouse = true): Promise<{
  sql: Sql
  clickhouse: ClickHouse
  run: (line: string) => Promise<Captured>
}> {
  const { client: clickhouse } = await createTestClickHouse(t)
  const api = await startApi(t, withClickHouse ? { clickhouse } : {})
  const { sql } = api
  await api.inNewProject()
  await insertPerson(sql, ['jo', 'phone'], { email: 'jo@example.com' })
  await insertPerson(sql, ['ann'], {})
  await clickhouse.insert({
    table: 'person_overrides',
    values: [{ project_id: 1, old_person_id: personUuid(1, 'phone'), person_id: JO, version: 1, is_deleted: 0 }],
    format: 'JSONEachRow'
  })
  await clickhouse.insert({
    table: 'events',
    values: ['jo', 'jo', 'phone', 'phone', 'ann', 'ann'].map((id) => ({
      project_id: 1, uuid: randomUUID(), event: 'e', distinct_id: id, timestamp: '2026-01-01 00:00:00',
      received_at: '2026-01-01 00:00:00'
    })),
    format: 'JSONEachRow'
  })
  return { sql, clickhouse, run: async (line) => await api.run(...line.split(' ')) }
}

async function insertPerson (
  sql: Sql, distinctIds: readonly string[], properties: Record<string, string>
): Promise<void> {
  const uuid = personUuid(1, distinctIds[0]!)
  const [person] = await sql<[{ id: number }]>`
    INSERT INTO persons (project_id, uuid, properties, is_identified)
    VALUES (1, ${uuid}, ${sql.json(properties)}, true) RETURNING id`
  for (const distinctId of distinctIds) {
    await sql`INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) VALUES (1, ${distinctId}, ${person.id})`
  }
}

async function countEvents (clickhouse: ClickHouse): Promise<number> {
  const result = await clickhouse.query({ query: 'SELECT count() AS n FROM events', format: 'JSONEachRow' })
  return Number((await result.json<{ n: string }>())[0]?.n)
}
