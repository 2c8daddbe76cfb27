import t from 'tap'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/persons/lock-persons.ts'
import type { PersonsUpdate } from '../../schema/persons-update.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { applyUpdates } from './apply-updates.ts'
import { loadAll } from './load-persons.ts'
import { measureProperties } from './properties-size.ts'
import { made } from './testing/large-persons.ts'

/** Near the largest that there may be. */
const LARGE_BYTES = 500_000

/** What is read at a time. */
const MAX_LARGE_BYTES = 16_777_216

const OWNERS = 60

/** Stores persons `person 1` to 60, groups `group 1` to 60, and a small one of both. */
async function storeOwners (sql: Sql): Promise<void> {
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one')`
  await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (1, 'company', 0)`
  await sql`
    INSERT INTO persons (id, project_id, uuid, properties)
    SELECT i, 1, gen_random_uuid(), jsonb_build_object('fill', repeat('x', CASE i WHEN 0 THEN 1 ELSE ${LARGE_BYTES} END))
    FROM generate_series(0, ${OWNERS}) AS i`
  await sql`INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT 1, 'person ' || id, id FROM persons`
  await sql`
    INSERT INTO groups (project_id, group_type_index, group_key, properties)
    SELECT 1, 0, 'group ' || id, properties FROM persons`
}

const setOfPerson = (number: number): PersonsUpdate =>
  ({ ...made(number), kind: 'person', distinctId: `person ${number}`, set: { number } })
const setOfGroup = (number: number): PersonsUpdate =>
  ({ ...made(number), kind: 'group', groupType: 'company', groupKey: `group ${number}`, set: { number } })

const numbers = Array.from({ length: OWNERS }, (_, i) => i + 1)

t.test('reads large persons and groups only as far as they fit into memory', async (t) => {
  const { sql } = await createTestPostgres(t)
  await storeOwners(sql)
  await sql.begin(async (transaction) => {
    await lockPersons(transaction, [1])
    for (const [name, toUpdate] of Object.entries({ setOfPerson, setOfGroup })) {
      const updates = [toUpdate(0), ...numbers.map(toUpdate)]
      const { taken, propertiesBytes } = await loadAll(transaction, updates, 5)
      t.ok(taken > 30 && taken < 40, `${name}: ${taken} of ${updates.length}`)
      t.ok(propertiesBytes > 15e6 && propertiesBytes < MAX_LARGE_BYTES, `${name}: ${propertiesBytes} bytes`)
      // One that is larger than the memory for all is read alone.
      t.match(await loadAll(transaction, updates.slice(1), 5, 1000), { taken: 1 })
      // Ids of a person that was counted need no more memory.
      t.match(await loadAll(transaction, Array.from({ length: 100 }, () => toUpdate(7)), 5, 1000), { taken: 100 })
      // What is small, or not stored, is read however little memory there is.
      t.match(await loadAll(transaction, [toUpdate(0), toUpdate(900), toUpdate(0)], 5, 0), { taken: 3 })
    }
  })
})

t.test('what Postgres returns is no larger than was counted, but for a blank behind colons and commas', async (t) => {
  const { sql } = await createTestPostgres(t)
  for (const value of [1e300, -1.5e-300, 5e-324, 1.7976931348623157e308, 1e21, 123456789012345680000, 1e-7, 0.1, -0, '1e300"\n\u0001é']) {
    const properties = { a: value, b: [value, { c: value }] }
    const [{ bytes }] = await sql<[{ bytes: number }]>`SELECT octet_length(${JSON.stringify(properties)}::text::jsonb::text) AS bytes`
    const blanks = 5
    t.ok(bytes <= measureProperties(properties) + blanks, `${JSON.stringify(value)}: ${bytes} bytes`)
  }
})

t.test('a batch that names more than fits into memory ends as if all of it did', async (t) => {
  const { sql } = await createTestPostgres(t)
  await storeOwners(sql)
  const merges = numbers.slice(0, 50).map((number): PersonsUpdate => ({
    ...made(100 + number), kind: 'merge', distinctId: 'person 0', otherDistinctId: `person ${number}`, how: 'force'
  }))
  const unknown: PersonsUpdate = { ...setOfPerson(1), projectId: 99 }
  const updates = [
    ...numbers.flatMap((number) => [setOfPerson(number), setOfGroup(number)]),
    unknown, ...merges, setOfPerson(0), unknown
  ]

  const outcome = await sql.begin(async (transaction) => await applyUpdates(transaction, updates, 5))
  t.equal(outcome.refused.filter(({ reason }) => reason === 'unknown_project').length, 2)
  t.equal(outcome.merges.length, 50)
  t.ok(outcome.propertiesBytes > 2 * OWNERS * LARGE_BYTES, `${outcome.propertiesBytes} bytes`)

  const persons = await sql`SELECT id, (properties -> 'number')::int AS number FROM persons ORDER BY id`
  t.same(persons.map(({ id, number }) => [id, number]), [0, ...numbers.slice(50)].map((number) => [number, number]))
  t.match(await sql`SELECT count(*)::int AS ids FROM person_distinct_ids WHERE person_id = 0`, [{ ids: 51 }])
  t.match(await sql`
    SELECT count(*)::int AS groups FROM groups WHERE group_key = 'group ' || (properties ->> 'number')`, [{ groups: OWNERS }])
})
