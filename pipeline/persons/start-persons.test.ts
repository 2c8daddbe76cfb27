import { jetstream } from '@nats-io/jetstream'
import { pino } from 'pino'
import t from 'tap'
import { createMetrics } from '../../platform/metrics.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams } from '../../platform/nats/prepare-jetstream.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import type { MergeUpdate } from '../../schema/wire/persons-update.ts'
import { personsSubject } from '../../schema/wire/streams.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { openPersonsReader } from './persons-reader.ts'
import { compareCopies } from './testing/compare-copies.ts'
import { noCopiesWait, origin, readPersons, startPersonsStores } from './testing/start-persons-stores.ts'

/** Shared by tests that do not check the copies. */
const clickhouse = await createTestClickHouse(t)

t.test('applies what events say about persons, in order', async (t) => {
  const { publish, start, waitUntilApplied, sql } = await startPersonsStores(t, { clickhouse })
  start()

  await publish([
    { ...origin(), kind: 'person', distinctId: 'a', set: { plan: 'free', seats: 1 }, setOnce: { first: 'x' } },
    { ...origin(), kind: 'person', distinctId: 'a', set: { plan: 'pro' }, setOnce: { first: 'y' }, unset: ['seats'] }
  ])
  await waitUntilApplied()

  const persons = await readPersons(sql, 1)
  t.match(persons, [{ uuid: personUuid(1, 'a'), isIdentified: false, distinctIds: ['a'] }])
  t.strictSame(persons[0]?.properties, { plan: 'pro', first: 'x' })
})

t.test('merges the anonymous person into the identified one, for past events too', async (t) => {
  const { publish, start, waitUntilApplied, sql, clickhouse: { client } } = await startPersonsStores(t)
  start()
  const event = { project_id: 1, event: 'e', timestamp: '2026-01-01 00:00:00' }
  await client.insert({
    table: 'events',
    values: ['anonymous-1', 'jo', 'stranger'].map((id) => ({ ...event, distinct_id: id })),
    format: 'JSONEachRow'
  })

  await publish([
    { ...origin(), kind: 'person', distinctId: 'anonymous-1', set: { source: 'ad', plan: 'none' } },
    { ...origin(), kind: 'person', distinctId: 'jo', set: { plan: 'pro' } },
    { ...identify('jo', 'anonymous-1'), set: { name: 'Jo' } }
  ])
  await waitUntilApplied()

  const uuid = personUuid(1, 'jo')
  t.match(await readPersons(sql, 1), [{
    uuid, properties: { source: 'ad', plan: 'pro', name: 'Jo' }, isIdentified: true, distinctIds: ['anonymous-1', 'jo']
  }])
  const byPerson = await waitFor(async () => {
    const result = await client.query({
      query: `SELECT person_id, arraySort(groupArray(distinct_id)) AS ids, any(JSONExtractString(persons.properties, 'name')) AS name
        FROM events_with_person AS events JOIN persons FINAL USING (project_id, person_id) GROUP BY person_id`,
      format: 'JSONEachRow'
    })
    const rows = await result.json<{ ids: string[] }>()
    return rows[0]?.ids.length === 2 && rows
  })
  t.strictSame(byPerson, [{ person_id: uuid, ids: ['anonymous-1', 'jo'], name: 'Jo' }])
})

t.test('refuses to merge an identified person into another unless forced, and counts refusals', async (t) => {
  const { publish, start, waitUntilApplied, sql } = await startPersonsStores(t, { clickhouse })
  start()

  await publish([
    identify('jo', 'phone'), identify('ann', 'laptop'), identify('ann', 'phone'), identify('ann', 'null'),
    identify('ann', ' "Guest" ')
  ])
  await waitUntilApplied()
  t.match(await readPersons(sql, 1), [{ distinctIds: ['ann', 'laptop'] }, { distinctIds: ['jo', 'phone'] }])
  const warnings = await waitFor(async () => {
    const result = await clickhouse.client.query({
      query: `SELECT reason, effect, toUInt32(sum(count)) AS count, arraySort(groupArrayArray(samples.value)) AS values
        FROM ingestion_warnings WHERE project_id = 1 GROUP BY reason, effect ORDER BY reason`,
      format: 'JSONEachRow'
    })
    const rows = await result.json<object>()
    return rows.length === 2 && rows
  })
  t.strictSame(warnings, [
    { reason: 'already_identified', effect: 'refused', count: 1, values: ['phone'] },
    { reason: 'illegal_distinct_id', effect: 'refused', count: 2, values: [' "Guest" ', 'null'] }
  ])

  await publish([{ ...identify('ann', 'phone'), how: 'force' }])
  await waitUntilApplied()
  t.match(await readPersons(sql, 1), [{ uuid: personUuid(1, 'ann'), distinctIds: ['ann', 'jo', 'laptop', 'phone'] }])
})

t.test('moves the cohort memberships of a merged person to the survivor, each once', async (t) => {
  const { publish, start, waitUntilApplied, sql } = await startPersonsStores(t, { clickhouse })
  start()
  await publish(['a', 'b'].map((distinctId) => ({ ...origin(), kind: 'person', distinctId })))
  await waitUntilApplied()
  const cohorts = await sql<{ id: number }[]>`
    INSERT INTO cohorts (project_id, name, is_static) VALUES (1, 'both', true), (1, 'merged only', true) RETURNING id`
  const [both, mergedOnly] = cohorts.map(({ id }) => id)
  await sql`INSERT INTO cohort_members (cohort_id, person_id)
    SELECT ${both!}::int, person_id FROM person_distinct_ids
    UNION ALL SELECT ${mergedOnly!}::int, person_id FROM person_distinct_ids WHERE distinct_id = 'a'`

  await publish([identify('b', 'a')])
  await waitUntilApplied()

  t.strictSame([...await sql`SELECT cohort_id, distinct_id FROM cohort_members JOIN person_distinct_ids USING (person_id)
    WHERE distinct_id = 'b' ORDER BY 1`], [both, mergedOnly].map((id) => ({ cohort_id: id, distinct_id: 'b' })))
  t.strictSame([...await sql`SELECT count(*)::int FROM cohort_members`], [{ count: 2 }])
})

t.test('numbers group types in order of appearance, also beyond five, and sets properties of groups', async (t) => {
  const stores = await startPersonsStores(t)
  const { publish, start, waitUntilApplied, sql, clickhouse: { client } } = stores
  start()

  await publish(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'b'].map((groupType) => ({ ...origin(), kind: 'groupType', groupType })))
  await publish([
    { ...origin(), kind: 'group', groupType: 'h', groupKey: 'Acme', set: { plan: 'free', seats: 3 } },
    { ...origin(2), kind: 'group', groupType: 'h', groupKey: 'Acme', set: {} },
    { ...origin(), kind: 'group', groupType: 'h', groupKey: 'Acme', set: { plan: 'pro' } }
  ])
  await waitUntilApplied()

  const types = await sql`SELECT group_type, group_type_index FROM group_types WHERE project_id = 1 ORDER BY 2`
  t.equal(types.map((row) => row.group_type).join(''), 'abcdefgh')
  t.strictSame(types.map((row) => row.group_type_index as number), [0, 1, 2, 3, 4, 5, 6, 7])
  t.match(await sql`SELECT group_type_index, properties FROM groups ORDER BY project_id`, [
    { group_type_index: 7, properties: { plan: 'pro', seats: 3 } }, { group_type_index: 0 }
  ])
  await noCopiesWait(stores)
  const result = await client.query({
    query: 'SELECT group_type, group_key, group_type_index, properties FROM groups FINAL WHERE project_id = 1',
    format: 'JSONEachRow'
  })
  const [copy] = await result.json<{ properties: string }>()
  t.match(copy, { group_type: 'h', group_key: 'Acme', group_type_index: 7 })
  t.strictSame(JSON.parse(copy?.properties ?? ''), { plan: 'pro', seats: 3 })
})

t.test('ignores and counts group types beyond the limit; known types and other projects are unaffected', async (t) => {
  const stores = await startPersonsStores(t)
  const { publish, start, waitUntilApplied, sql } = stores
  await sql`INSERT INTO group_types (project_id, group_type, group_type_index) VALUES (1, 'old', 3)`
  const metrics = createMetrics('pipeline')
  start({ maxGroupTypes: 5, metrics })

  await publish([{ ...origin(), kind: 'groupType', groupType: 'last' }])
  await waitUntilApplied()
  await publish(['over', 'old', 'last', 'over'].map((groupType) => ({ ...origin(), kind: 'groupType', groupType })))
  await publish(['beyond', 'old', 'last'].map((groupType) => ({ ...origin(), kind: 'group', groupType, groupKey: 'k', set: { a: 1 } })))
  await publish([{ ...origin(2), kind: 'groupType', groupType: 'over' }])
  await waitUntilApplied()

  t.strictSame([...await sql`SELECT project_id, group_type, group_type_index FROM group_types ORDER BY 1, 3`], [
    { project_id: 1, group_type: 'old', group_type_index: 3 }, { project_id: 1, group_type: 'last', group_type_index: 4 },
    { project_id: 2, group_type: 'over', group_type_index: 0 }
  ])
  t.strictSame([...await sql`SELECT group_type_index FROM groups ORDER BY 1`], [{ group_type_index: 3 }, { group_type_index: 4 }])
  t.match(await sql`SELECT project_id, reason, sum(occurrences)::int AS occurrences FROM persons_warning_minutes GROUP BY 1, 2`, [
    { project_id: 1, reason: 'too_many_group_types', occurrences: 3 }
  ])
  t.match(await metrics.registry.metrics(), /persons_group_types_ignored_total 3\n/)
})

t.test('makes one person of two that are merged from both sides at once', async (t) => {
  const stores = await startPersonsStores(t)
  const { publish, publishRaw, start, waitUntilApplied, sql } = stores
  const pairs = Array.from({ length: 200 }, (_, i) => [`left-${i}`, `right-${i}`] as const)
  start({ maxBatchBytes: 1000 })
  await publish(pairs.flat().map((distinctId) => ({ ...origin(), kind: 'person', distinctId, set: { of: distinctId } })))
  await waitUntilApplied()

  // Ingest never does that: it takes all updates of a project to one partition.
  await Promise.all(pairs.flatMap(([left, right]) => [
    publishRaw(2, JSON.stringify([identify(left, right)])), publishRaw(3, JSON.stringify([identify(right, left)]))
  ]))
  await waitUntilApplied()

  const persons = await readPersons(sql, 1)
  t.equal(persons.length, pairs.length)
  t.ok(persons.every(({ distinctIds, isIdentified }) => distinctIds.length === 2 && isIdentified))
  await noCopiesWait(stores)
  t.same(await compareCopies(stores), [])
})

function identify (distinctId: string, otherDistinctId: string): MergeUpdate {
  return { ...origin(), kind: 'merge', how: 'identify', distinctId, otherDistinctId }
}

/** More than two pulls bring. */
const MESSAGES = 250

t.test('keeps its place when the server says that a pull is complete', async (t) => {
  const { url } = await startTestNats(t)
  const connection = await connectNats({ url, name: 'test', logger: pino({ level: 'silent' }) })
  t.teardown(() => connection.close())
  await ensureStreams(connection, { replicas: 1, eventsMaxBytes: 1e8, deadLetterMaxBytes: 1e7 })
  for (let number = 0; number < MESSAGES; number++) {
    await jetstream(connection).publish(personsSubject(3), String(number))
  }
  const never = new AbortController().signal

  const reader = await openPersonsReader(3, { connection })
  t.teardown(() => reader.close())
  const read: string[] = []
  while (read.length < MESSAGES) {
    await reader.waitForMessages(5000, never)
    const taken = reader.take(1000)
    if (taken.length === 0) break
    read.push(...taken.map((message) => Buffer.from(message.data).toString()))
  }

  t.same(read, Array.from({ length: MESSAGES }, (_, number) => String(number)))
})
