import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { toStorableJson } from '../../engines/body/storable-text.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { toCopyTime } from '../../schema/wire/persons-copies.ts'
import type { MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'
import { createRandom } from '../../test/support/random.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { compareCopies } from './testing/compare-copies.ts'
import { randomRepairs } from './testing/random-repairs.ts'
import { replayModel, type Step } from './testing/repaired-model.ts'
import { noCopiesWait, readPersons, startPersonsStores, type PersonsStores } from './testing/start-persons-stores.ts'

/** Each sequence has a project of its own. `npm run check:persons` takes 200. */
const SEQUENCES = Number(process.env.MILLRACE_TEST_SEQUENCES ?? 10)

t.test(`${SEQUENCES} random sequences of merges, splits and undos, in the real stores`, async (t) => {
  const stores = await startPersonsStores(t, { projects: SEQUENCES })
  await stores.clickhouse.client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3) + INTERVAL 1 DAY, (now64(3), '')" })
  stores.start({ repairsPollIntervalMs: 50 })
  const seed = Number(process.env.MILLRACE_TEST_SEED ?? 1)
  const sequences = Array.from({ length: SEQUENCES }, (_, i) =>
    randomRepairs(createRandom(seed * 1e6 + i), i + 1).steps)
  for (let i = 0; i < Math.max(...sequences.map(({ length }) => length)); i++) {
    const steps = sequences.flatMap((sequence, n) =>
      sequence.slice(i, i + 1).map((step) => ({ project: n + 1, step, sequence })))
    await Promise.all([applyUpdates(stores, steps), requestRepairs(stores, steps)])
  }
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
  t.ok(sequences.flat().filter(({ kind }) => kind !== 'update').length >= SEQUENCES, 'there were repairs')
})

interface ProjectStep { project: number, step: Step, sequence: readonly Step[] }

/** Publishes the updates of a step, and stores their events, as ingest does. */
async function applyUpdates (
  { clickhouse, publish, waitUntilApplied }: PersonsStores, steps: readonly ProjectStep[]
): Promise<void> {
  const updates = steps.flatMap(({ step }) => step.kind === 'update' ? [step.update] : [])
  for (const update of updates) {
    Object.assign(update, toStorableJson(update))
    update.receivedAt = Date.now()
    update.timestamp = update.receivedAt - update.timestamp % 1000
  }
  const values = updates.map((update) => ({
    project_id: update.projectId, uuid: update.uuid, distinct_id: update.distinctId,
    timestamp: toCopyTime(update.timestamp), received_at: toCopyTime(update.receivedAt), ...eventOf(update)
  }))
  await clickhouse.client.insert({ table: 'events', format: 'JSONEachRow', values })
  await publish(updates.map(({ receivedAt: _, ...update }) => update))
  await waitUntilApplied()
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
    if (step.kind === 'update') continue
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
  await waitFor(isDone, { timeoutMs: 60_000 })
}
