import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import type { PersonsUpdate, MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'
import { createRandom, pickOne, type Random } from '../../test/support/random.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { withoutSettings } from '../../test/support/environments.ts'
import { compareCopies } from './testing/compare-copies.ts'
import { randomUpdates } from './testing/random-updates.ts'
import { applyToModel } from './testing/reference-model.ts'
import { noCopiesWait, startPersonsStores, type StoredPerson, type PersonsStores } from './testing/start-persons-stores.ts'

/**
 * Each sequence has a project of its own, so that each has one right outcome. A campaign takes more, and another seed:
 * `MILLRACE_TEST_SEQUENCES=10000 MILLRACE_TEST_SEED=5 npx node pipeline/persons/exactly-once.test.ts`.
 */
const SEQUENCES = Number(process.env.MILLRACE_TEST_SEQUENCES ?? (process.env.MILLRACE_TEST_LONG === '1' ? 3000 : 200))
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 4)

/** Messages on their way at a time. */
const UNCONFIRMED = 10

t.test(`${SEQUENCES} random sequences end as the rules say, through redeliveries and kills`, async (t) => {
  t.comment(`seed ${SEED}`)
  const random = createRandom(SEED)
  const stores = await startPersonsStores(t, { projects: SEQUENCES })
  const sequences = Array.from({ length: SEQUENCES }, (_, i) =>
    randomUpdates(random, i + 1, lengthOf(random)))

  const appliers = keepRestarting(t, stores, random)
  let unconfirmed: Promise<void>[] = []
  for (const message of shuffleIntoMessages(random, sequences)) {
    // One connection keeps the order; waiting for each answer would only cost time.
    if (unconfirmed.push(stores.publish(...message)) < UNCONFIRMED) continue
    await Promise.all(unconfirmed)
    unconfirmed = []
  }
  await Promise.all(unconfirmed)
  await stores.waitUntilApplied()
  const deaths = await appliers.stop()
  const calm = stores.start()
  await noCopiesWait(stores)
  await calm.stop()

  const stored = await readAllPersons(stores)
  const wrong = sequences.filter((sequence, i) => !isDeepStrictEqual(stored.get(i + 1), expected(sequence)))
  t.equal(wrong.length, 0, 'sequences that ended otherwise')
  t.ok(deaths > 0, `appliers were killed ${deaths} times`)
  if (wrong[0] !== undefined) {
    t.comment(JSON.stringify(wrong[0], null, 1))
    t.same(stored.get(wrong[0][0]!.projectId), expected(wrong[0]))
  }
  t.same(await compareCopies(stores), [], 'copies in ClickHouse')
})

/** 3 to 13 updates, most of them few: the time of the test goes with their number. */
function lengthOf (random: Random): number {
  return 3 + Math.floor(random() ** 2 * 11)
}

type Messages = PersonsUpdate[][]

/** Splits all sequences, interleaved, into messages of random size; some are sent again, at once or much later. */
function * shuffleIntoMessages (random: Random, sequences: readonly PersonsUpdate[][]): Generator<Messages> {
  const unfinished = sequences.map((updates) => ({ updates, next: 0 }))
  const sent: PersonsUpdate[][] = []
  while (unfinished.length > 0) {
    const message: PersonsUpdate[] = []
    for (let left = 1 + Math.floor(random() * 400); left > 0 && unfinished.length > 0; left--) {
      // Sequences progress together, a few hundred at a time.
      const at = Math.floor(random() * Math.min(unfinished.length, 300))
      const sequence = unfinished[at]!
      message.push(sequence.updates[sequence.next++]!)
      if (sequence.next === sequence.updates.length) {
        unfinished[at] = unfinished.at(-1)!
        unfinished.pop()
      }
    }
    sent.push(message)
    yield random() < 0.15 ? [message, pickOne(sent, random)] : [message]
  }
}

/** Runs one applier after the other, and now and then two at once; most of them die after a few commits. */
function keepRestarting (t: TestContext, stores: PersonsStores, random: Random): { stop: () => Promise<number> } {
  let deaths = 0
  const stopping = new AbortController()
  const running = new Set<ChildProcess>()
  t.teardown(() => { for (const child of running) child.kill('SIGKILL') })
  const slots = [runSlot(() => 1 + Math.floor(random() * 10)), runSlot(() => 10 + Math.floor(random() * 40))]

  async function runSlot (commits: () => number): Promise<void> {
    // On a slow machine everything waits when the first one is ready, which may take it in one commit.
    for (let left = 1; !stopping.signal.aborted; left = commits()) {
      const child = spawn(process.execPath, [path.join(import.meta.dirname, 'testing', 'crash-test-main.ts')], {
        stdio: ['pipe', 'ignore', 'inherit'],
        env: {
          ...withoutSettings(process.env),
          NATS_URL: stores.nats.url,
          DATABASE_URL: stores.databaseUrl,
          CLICKHOUSE_URL: stores.clickhouse.url,
          MILLRACE_TEST_COMMITS: String(left)
        }
      })
      running.add(child)
      const [, signal] = await once(child, 'exit') as [number | null, string | null]
      running.delete(child)
      if (signal === 'SIGKILL') deaths++
    }
  }

  return {
    async stop () {
      stopping.abort()
      for (const child of running) child.kill('SIGTERM')
      await Promise.all(slots)
      return deaths
    }
  }
}

/** What Postgres can store of an update; the same with every text of it. */
function clean<U extends PersonUpdate | MergeUpdate> (update: U): U {
  return JSON.parse(JSON.stringify(update).replaceAll(/\\u0000|\\ud800/g, '\ufffd')) as U
}

/** What the model says, in objects as JSON makes them. */
function expected (sequence: readonly (PersonUpdate | MergeUpdate)[]): StoredPerson[] {
  return JSON.parse(JSON.stringify(applyToModel(sequence.map(clean)))) as StoredPerson[]
}

async function readAllPersons ({ sql }: PersonsStores): Promise<Map<number, StoredPerson[]>> {
  const rows = await sql<{ projectId: number, person: StoredPerson }[]>`
    SELECT persons.project_id AS "projectId", json_build_object('uuid', uuid, 'properties', properties,
      'isIdentified', is_identified, 'createdAt', (extract(epoch FROM persons.created_at) * 1000)::bigint,
      'distinctIds', json_agg(distinct_id ORDER BY distinct_id COLLATE "C")) AS person
    FROM persons JOIN person_distinct_ids ON person_id = persons.id
    GROUP BY persons.id ORDER BY min(distinct_id COLLATE "C")`
  const byProject = new Map<number, StoredPerson[]>()
  for (const [projectId, own] of Map.groupBy(rows, (row) => row.projectId)) {
    byProject.set(projectId, own.map(({ person }) => person))
  }
  return byProject
}
