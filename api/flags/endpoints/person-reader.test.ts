import t from 'tap'
import { addPerson, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'
import { connectPostgres } from '../../../platform/postgres/connect-postgres.ts'
import { createPersonReader } from './person-reader.ts'

const shop = await createTestDecide(t)
const other = await shop.inNewProject()
const { sql } = shop

/** The text of everything that is read, in the order of the queries. */
function queriesOf ({ projectId }: TestDecide, cohortId: number) {
  const groups = new Map([[0, 'acme'], [1, 'a"{\\}😀'], [2, 'unknown']])
  return ['u1', 'u1-phone', 'nobody', 'a,"b\\', ''].flatMap((distinctId) => [
    { projectId, distinctId, groups: new Map<number, string>(), cohortIds: [], needsHashKeys: false },
    { projectId, distinctId, groups, cohortIds: [cohortId, 999_999], needsHashKeys: true }
  ])
}

t.test('requests of one moment are read by one statement, each as it would be alone', async (t) => {
  const cohorts = await Promise.all([shop, other].map(async (decide, i) => {
    const { projectId } = decide
    const person = await addPerson(decide, ['u1', 'u1-phone'], { plan: `plan ${i}`, account: 1 })
    await addPerson(decide, ['a,"b\\'], { plan: 'odd' })
    await sql`UPDATE persons SET properties = properties || '{"account": 9007199254740993}' WHERE id = ${person}`
    for (const [index, type, key] of [[0, 'company', 'acme'], [1, 'odd', 'a"{\\}😀']] as const) {
      await sql`INSERT INTO group_types ${sql({ project_id: projectId, group_type: type, group_type_index: index })}`
      await sql`INSERT INTO groups (project_id, group_type_index, group_key, properties)
        VALUES (${projectId}, ${index}, ${key}, ${sql.json({ size: i * 10 + index })})`
    }
    await sql`INSERT INTO flag_hash_keys (project_id, distinct_id, feature_flag_key, hash_key)
      VALUES (${projectId}, 'u1-phone', 'sticky', ${`hash ${i}`})`
    const [cohort] = await sql<{ id: number }[]>`
      INSERT INTO cohorts (project_id, name, is_static) VALUES (${projectId}, 'c', true) RETURNING id`
    await sql`INSERT INTO cohort_members (cohort_id, person_id) VALUES (${cohort!.id}, ${person})`
    return cohort!.id
  }))
  const queries = [...queriesOf(shop, cohorts[0]!), ...queriesOf(other, cohorts[1]!)]
  const client = connectPostgres({ url: shop.databaseUrl, max: 2 })
  t.teardown(async () => await client.end({ timeout: 1 }))
  let statements = 0
  client.onStatement = () => { statements++ }
  const reader = createPersonReader(client)

  const together = await Promise.all(queries.map(async (query) => await reader.readForFlags(query).answer))

  t.equal(statements, 1)
  for (const [i, query] of queries.entries()) {
    t.strictSame(together[i], await reader.readForFlags(query).answer, JSON.stringify(query))
  }
  t.equal(statements, 1 + queries.length)
  t.match(together[3], {
    properties: { plan: 'plan 0', account: { rawJSON: '9007199254740993' } },
    groupProperties: new Map([[0, { size: 0 }], [1, { size: 1 }]]),
    hashKeyOverrides: new Map([['sticky', 'hash 0']]),
    cohortIds: new Set([cohorts[0]])
  })
  t.match(together[13]?.properties, { plan: 'plan 1' }, 'the same id in another project is another person')
  t.same(together[4], {
    properties: {}, groupProperties: new Map(), hashKeyOverrides: new Map(),
    hashKeysUnknown: false, cohortIds: new Set()
  })
})

t.test('a text that Postgres cannot hold fails its own request only', async (t) => {
  const reader = createPersonReader(sql)
  const ask = async (distinctId: string): Promise<unknown> => await reader.readForFlags({
    projectId: shop.projectId, distinctId, groups: new Map(), cohortIds: [], needsHashKeys: false
  }).answer

  const [good, bad, another] = await Promise.allSettled(['u1', 'a\0b', 'nobody'].map(ask))

  t.match(good, { status: 'fulfilled', value: { properties: { plan: 'plan 0' } } })
  t.match(bad, { status: 'rejected', reason: { code: '22021' } })
  t.match(another, { status: 'fulfilled' })
})
