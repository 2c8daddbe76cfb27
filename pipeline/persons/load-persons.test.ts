import t from 'tap'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { lockPersons } from '../../platform/postgres/lock-persons.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { applyUpdates } from './apply-updates.ts'
import { findRows, loadRows, type OwnerRow, rowsOf } from './load-persons.ts'
import { measureProperties } from './properties-size.ts'
import { made } from './testing/large-persons.ts'

/** Near the largest that there may be. */
const LARGE_BYTES = 500_000

/** Of persons alone more than a batch holds of large ones. */
const OWNERS = 40
/** Of them. */
const MERGED = 30

/** How often each of them changes in a batch. */
const ROUNDS = 2

/** Stores persons from `person 1` on, groups from `group 1` on, and a small one of both. */
async function storeOwners (sql: Sql, count = OWNERS): Promise<void> {
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one')`
  await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (1, 'company', 0)`
  await sql`
    INSERT INTO persons (id, project_id, uuid, properties)
    SELECT i, 1, gen_random_uuid(), jsonb_build_object('fill', repeat('x', CASE i WHEN 0 THEN 1 ELSE ${LARGE_BYTES} END))
    FROM generate_series(0, ${count}) AS i`
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

t.test('reads large persons and groups only when they are asked for', async (t) => {
  const { sql } = await createTestPostgres(t)
  const few = numbers.slice(0, 5)
  await storeOwners(sql, few.length)
  await sql.begin(async (transaction) => {
    await lockPersons(transaction, [1])
    for (const [name, toUpdate] of Object.entries({ setOfPerson, setOfGroup })) {
      const updates = [toUpdate(0), ...few.map(toUpdate), toUpdate(900)]
      const found = await findRows(transaction, updates, 5)
      const rows = updates.map((update) => rowsOf(update, found)[0])
      t.match(rows[0], { properties: '{"fill": "x"}', bytes: 13 }, name)
      t.ok(rows.slice(1, -1).every((row) => row?.properties === null && row.bytes > LARGE_BYTES), name)
      t.equal(rows.at(-1), undefined, name)

      const large = rows.slice(1, 3) as OwnerRow[]
      const bytes = await loadRows(transaction, found, large)
      t.ok(bytes > 2 * LARGE_BYTES && bytes < 2.1 * LARGE_BYTES, `${name}: ${bytes} bytes`)
      const { persons, groups } = found.state
      const sizes = [...persons, ...groups].map(({ properties }) => String(properties.fill).length)
      t.same(sizes.sort(), [1, LARGE_BYTES, LARGE_BYTES], name)
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

t.test('a batch changes each large person and group, however its updates alternate', async (t) => {
  const { sql } = await createTestPostgres(t)
  await storeOwners(sql)
  const updates = Array.from({ length: ROUNDS }, (_, round) => numbers.flatMap((number): PersonsUpdate[] => [
    { ...setOfPerson(number), uuid: made(1000 * round + number).uuid, set: { number, [`round ${round}`]: round } } as PersonsUpdate,
    { ...setOfGroup(number), uuid: made(1000 * round + number).uuid, set: { number, [`round ${round}`]: round } } as PersonsUpdate,
    // Refused, as the other one is identified: that does not make them one.
    { ...made(5000 * round + number), kind: 'merge', distinctId: `person ${number}`, otherDistinctId: `person ${number % OWNERS + 1}`, how: 'identify' }
  ])).flat()
  await sql`UPDATE persons SET is_identified = true`

  await sql.begin(async (transaction) => await applyUpdates(transaction, updates, 5))
  for (const owners of [
    await sql`SELECT properties FROM persons WHERE id > 0`,
    await sql`SELECT properties FROM groups WHERE group_key <> 'group 0'`
  ]) {
    t.equal(owners.length, OWNERS)
    t.ok(owners.every(({ properties }) => properties.number > 0 && Object.keys(properties).length === ROUNDS + 2))
  }
})

t.test('a batch that names more than fits into memory ends as if all of it did', async (t) => {
  const { sql } = await createTestPostgres(t)
  await storeOwners(sql)
  const merges = numbers.slice(0, MERGED).map((number): PersonsUpdate => ({
    ...made(100 + number), kind: 'merge', distinctId: 'person 0', otherDistinctId: `person ${number}`, how: 'force'
  }))
  const unknown: PersonsUpdate = { ...setOfPerson(1), projectId: 99 }
  const updates = [
    ...numbers.flatMap((number) => [setOfPerson(number), setOfGroup(number)]),
    unknown, ...merges, setOfPerson(0), unknown
  ]

  const outcome = await sql.begin(async (transaction) => await applyUpdates(transaction, updates, 5))
  t.equal(outcome.refused.filter(({ reason }) => reason === 'unknown_project').length, 2)
  t.equal(outcome.merges.length, MERGED)
  t.ok(outcome.propertiesBytes > 2 * OWNERS * LARGE_BYTES, `${outcome.propertiesBytes} bytes`)

  const persons = await sql`SELECT id, (properties -> 'number')::int AS number FROM persons ORDER BY id`
  t.same(persons.map(({ id, number }) => [id, number]), [0, ...numbers.slice(MERGED)].map((number) => [number, number]))
  t.match(await sql`SELECT count(*)::int AS ids FROM person_distinct_ids WHERE person_id = 0`, [{ ids: MERGED + 1 }])
  t.match(await sql`
    SELECT count(*)::int AS groups FROM groups WHERE group_key = 'group ' || (properties ->> 'number')`, [{ groups: OWNERS }])
})
