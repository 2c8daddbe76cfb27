import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { toStorableJson } from '../../engines/body/storable-text.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { toCopyTime } from '../../schema/wire/persons-copies.ts'
import type { MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { replayDeadLetters } from '../../platform/dead-letters/replay-and-purge.ts'
import { PERSONS_PARTITIONS, personsSubject } from '../../schema/wire/streams.ts'
import { createRandom } from '../../test/support/random.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { compareCopies } from './testing/compare-copies.ts'
import type { ReplayedUpdate } from './replay-persons.ts'
import { randomRepairs } from './testing/random-repairs.ts'
import { replayModel, type Step } from './testing/repaired-model.ts'
import { noCopiesWait, origin, readPersons, startPersonsStores, type PersonsStores } from './testing/start-persons-stores.ts'

/** Each sequence has a project of its own. `npm run check:persons` takes 200. */
const SEQUENCES = Number(process.env.MILLRACE_TEST_SEQUENCES ?? 10)

t.test(`${SEQUENCES} random sequences of merges, splits, undos and dead letters, in the real stores`, async (t) => {
  const stores = await startPersonsStores(t, { projects: SEQUENCES })
  await stores.clickhouse.client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3) + INTERVAL 1 DAY, (now64(3), '')" })
  stores.start({ pollIntervalMs: 50 })
  const seed = Number(process.env.MILLRACE_TEST_SEED ?? 1)
  const sequences = Array.from({ length: SEQUENCES }, (_, i) =>
    randomRepairs(createRandom(seed * 1e6 + i), i + 1).steps)
  for (let i = 0; i < Math.max(...sequences.map(({ length }) => length)); i++) {
    const steps = sequences.flatMap((sequence, n) =>
      sequence.slice(i, i + 1).map((step) => ({ project: n + 1, step, sequence })))
    await Promise.all([applyUpdates(stores, steps), deadLetter(stores, steps), requestRepairs(stores, steps)])
  }
  await replayLetters(stores)
  await noCopiesWait(stores)

  for (const [n, steps] of sequences.entries()) {
    const expected = replayModel(steps, n + 1).map(({ uuid, distinctIds, properties, isIdentified, createdAt }) =>
      ({ uuid, properties, isIdentified, createdAt, distinctIds: distinctIds.toSorted() }))
      .sort((a, b) => a.distinctIds[0]! < b.distinctIds[0]! ? -1 : 1)
    const persons = await readPersons(stores.sql, n + 1)
    if (isDeepStrictEqual(persons, expected)) continue
    for (const step of steps) t.comment(JSON.stringify(step))
    t.same(persons, expected, `sequence ${n}`)
  }
  t.same(await compareCopies(stores), [], 'copies in ClickHouse')
  for (const kind of ['split', 'letter']) t.ok(sequences.flat().filter((step) => step.kind === kind).length >= SEQUENCES / 2, `there was a ${kind}`)
})

t.test('a repair reads only related persons, holds no other up, and waits until updates are applied', async (t) => {
  const stores = await startPersonsStores(t)
  const { sql, clickhouse: { client } } = stores
  await client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3) + INTERVAL 1 DAY, (now64(3), '')" })
  stores.start({ pollIntervalMs: 50 })
  const visits = ['jo', 'anon', 'phone'].map((distinctId) => ({ ...origin(), kind: 'person' as const, distinctId, receivedAt: 0 }))
  const merges = ['anon', 'phone'].map((otherDistinctId) =>
    ({ ...origin(), kind: 'merge' as const, how: 'alias' as const, distinctId: 'jo', otherDistinctId, receivedAt: 0 }))
  const [first, second] = [merges[0]!, merges[1]!]
  const stepOf = (update: (typeof merges)[0] | (typeof visits)[0]): ProjectStep => ({ project: 1, step: { kind: 'update', update }, sequence: [] })
  await applyUpdates(stores, [...visits, first].map(stepOf))
  for (const other of ['', 'null']) {
    await client.command({
      query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, properties)
        SELECT 1, generateUUIDv4(), '$identify', 'other' || number, now64(3), now64(3), '{"$anon_distinct_id":"${other}"}' FROM numbers(1001)`
    })
    await client.command({
      query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, properties)
        VALUES (1, generateUUIDv4(), '$identify', 'jo', now64(3), now64(3), '{"$anon_distinct_id":"${other}"}')`
    })
  }
  const request = async (event: string, ids: string[]): Promise<number> => {
    const [row] = await sql<{ id: number }[]>`
      INSERT INTO person_repairs (project_id, person_uuid, kind, event_uuid, distinct_ids) VALUES (1, ${personUuid(1, 'jo')}, 'undo', ${event}, ${ids}) RETURNING id`
    return row!.id
  }
  const isDone = async (id: number): Promise<boolean> => {
    const [row] = await sql<{ done: boolean, error: string | null }[]>`SELECT done_at IS NOT NULL AS done, error FROM person_repairs WHERE id = ${id}`
    if (row === undefined || row.error !== null) throw new Error(row?.error ?? 'no such request')
    return row.done
  }
  // It fails whenever it is tried.
  await sql`INSERT INTO person_repairs (project_id, person_uuid, kind, parts, distinct_ids) VALUES (2, ${personUuid(2, 'x')}, 'split', '5', '{x}')`
  const undone = await request(first.uuid, ['jo', 'anon'])
  await waitFor(async () => await isDone(undone))
  t.same((await readPersons(sql, 1)).map(({ distinctIds }) => distinctIds), [['anon'], ['jo'], ['phone']])

  // As by a dead letter that is replayed: the event of the undone merge, which was not applied before.
  await publishAndApply(stores, [{ ...first, otherDistinctId: 'phone' }])
  t.same((await readPersons(sql, 1)).map(({ distinctIds }) => distinctIds), [['anon'], ['jo'], ['phone']])

  let early = 0
  let applied: Promise<void> | null = null
  await sql.begin(async (transaction) => {
    await transaction`SELECT 1 FROM persons_progress WHERE partition = 1 FOR UPDATE`
    applied = applyUpdates(stores, [stepOf(second)])
    await waitFor(async () => {
      const result = await client.query({ query: "SELECT 1 FROM events WHERE event = '$create_alias' LIMIT 2", format: 'JSONEachRow' })
      return (await result.json()).length === 2
    })
    await new Promise((resolve) => setTimeout(resolve, 200))
    early = await request(second.uuid, ['jo', 'phone'])
    await new Promise((resolve) => setTimeout(resolve, 1000))
    t.notOk(await isDone(early), 'the merge is not applied yet')
  })
  await applied
  await waitFor(async () => await isDone(early))
  t.same((await readPersons(sql, 1)).map(({ distinctIds }) => distinctIds), [['anon'], ['jo'], ['phone']])

  // A merge that was refused before a split, and one after it.
  const third = { ...second, ...origin(), otherDistinctId: 'tab' }
  const letter = (note: string): ProjectStep =>
    ({ project: 1, step: { kind: 'letter', update: { ...third, ...origin(), set: { [note]: true } } }, sequence: [] })
  await applyUpdates(stores, [stepOf(third)])
  await deadLetter(stores, [letter('before')])
  await sql`
    WITH c AS (INSERT INTO cohorts (project_id, name, filters) VALUES (1, 'due', '{}'), (2, 'not due', '{}') RETURNING id)
    INSERT INTO cohort_refreshes (cohort_id, tried_at) SELECT id, now() FROM c`
  const [split] = await sql<[{ id: number }]>`
    INSERT INTO person_repairs (project_id, person_uuid, kind, parts, distinct_ids) VALUES (1, ${personUuid(1, 'jo')}, 'split', '[["tab"]]', '{tab}') RETURNING id`
  await waitFor(async () => await isDone(split.id))
  await waitFor(async () => (await sql`SELECT FROM cohort_refreshes WHERE tried_at = '-infinity'`).length === 1)
  await replayLetters(stores)
  t.match((await readPersons(sql, 1)).slice(1), [{ distinctIds: ['jo'], properties: { before: true } }, { distinctIds: ['phone'] }, { distinctIds: ['tab'] }])
  await deadLetter(stores, [letter('after')])
  await replayLetters(stores)
  t.match((await readPersons(sql, 1)).slice(1), [{ distinctIds: ['jo', 'tab'], properties: { before: true, after: true } }, { distinctIds: ['phone'] }])
})

async function publishAndApply (
  { publish, waitUntilApplied }: PersonsStores, updates: readonly ReplayedUpdate[]
): Promise<void> {
  await publish(updates.map(({ receivedAt: _, ...update }) => update))
  await waitUntilApplied()
}

interface ProjectStep { project: number, step: Step, sequence: readonly Step[] }

/** Publishes the updates of a step, and stores their events, as ingest does. */
async function applyUpdates (
  stores: PersonsStores, steps: readonly ProjectStep[]
): Promise<void> {
  const { clickhouse } = stores
  const updates = receive(steps, 'update')
  const values = updates.map((update) => ({
    project_id: update.projectId, uuid: update.uuid, distinct_id: update.distinctId,
    timestamp: toCopyTime(update.timestamp), received_at: toCopyTime(update.receivedAt), ...eventOf(update)
  }))
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values })
  await publishAndApply(stores, updates)
}

/** As if the pipeline had refused them; repairs do not find their events. */
async function deadLetter ({ connection }: PersonsStores, steps: readonly ProjectStep[]): Promise<void> {
  for (const { receivedAt: _, ...update } of receive(steps, 'letter')) {
    const { projectId, uuid } = update
    await publishDeadLetter(connection, {
      stage: 'persons', reason: 'not_applicable', error: 'planted', subject: personsSubject(projectId % PERSONS_PARTITIONS), project: projectId,
      headers: {}, body: Buffer.from(JSON.stringify([update])), id: uuid
    })
  }
}

async function replayLetters ({ connection, publishRaw, waitUntilApplied }: PersonsStores): Promise<void> {
  await replayDeadLetters(connection)
  for (let partition = 0; partition < PERSONS_PARTITIONS; partition++) await publishRaw(partition, '[]')
  await waitUntilApplied()
}

function receive (steps: readonly ProjectStep[], kind: 'update' | 'letter'): ReplayedUpdate[] {
  const updates = steps.flatMap(({ step }) => 'update' in step && step.kind === kind ? [step.update] : [])
  for (const update of updates) {
    Object.assign(update, toStorableJson(update))
    update.receivedAt = Date.now()
    update.timestamp = update.receivedAt - update.timestamp % 1000
  }
  return updates
}

function eventOf (update: PersonUpdate | MergeUpdate): { event: string, properties: string } {
  const { set: $set, setOnce, unset: $unset } = update
  const properties = { ...$set && { $set }, ...setOnce && { $set_once: setOnce }, ...$unset && { $unset } }
  if (update.kind === 'person') {
    return { event: update.identify === true ? '$identify' : 'visit', properties: JSON.stringify({ $set: {}, ...properties }) }
  }
  const { how, otherDistinctId: other, identify } = update
  const ids = how === 'identify' ? { $anon_distinct_id: other } : { alias: other }
  return {
    event: { identify: '$identify', alias: '$create_alias', force: '$merge_dangerously' }[how],
    properties: JSON.stringify({ ...properties, ...ids, ...identify === false && { $mark_identified: false } })
  }
}

async function requestRepairs ({ sql }: PersonsStores, steps: readonly ProjectStep[]): Promise<void> {
  for (const { project, step, sequence } of steps) {
    if (step.kind === 'update' || step.kind === 'letter') continue
    const ids = step.kind === 'split'
      ? step.parts.flat()
      : sequence.flatMap((each) =>
        each.kind === 'update' && each.update.kind === 'merge' && each.update.uuid === step.uuid ? [each.update.distinctId, each.update.otherDistinctId] : [])
    const [person] = await sql<{ uuid: string }[]>`
      SELECT uuid FROM persons WHERE id IN (
        SELECT person_id FROM person_distinct_ids WHERE project_id = ${project} AND distinct_id = ANY (${ids})) LIMIT 1`
    await sql`
      INSERT INTO person_repairs (project_id, person_uuid, kind, event_uuid, parts, distinct_ids)
      VALUES (${project}, ${person?.uuid ?? personUuid(project, ids[0] ?? '')}, ${step.kind}, ${step.kind === 'undo' ? step.uuid : null},
        ${step.kind === 'split' ? sql.json(step.parts as string[][]) : null}::jsonb, ${ids})`
  }
  const isDone = async (): Promise<boolean> =>
    (await sql`SELECT 1 FROM person_repairs WHERE done_at IS NULL AND error IS NULL`).length === 0
  await waitFor(isDone)
}
