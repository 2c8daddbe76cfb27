import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { personUuid } from '../../schema/wire/identity.ts'
import { createRandom } from '../../test/support/random.ts'
import { type ReplayedUpdate, replayPersons, type WholePerson } from './replay-persons.ts'
import { randomRepairs } from './testing/random-repairs.ts'
import { replayModel } from './testing/repaired-model.ts'

/** A campaign: `MILLRACE_TEST_SEEDS=10000 npx node pipeline/persons/replay-persons.test.ts`. */
const SEEDS = Number(process.env.MILLRACE_TEST_SEEDS ?? 300)

t.test(`persons after ${SEEDS} random sequences of merges, splits, undos and replayed letters are those of a model`, (t) => {
  let repaired = 0
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { steps, persons } = randomRepairs(createRandom(seed))
    repaired += steps.filter(({ kind }) => kind === 'undo' || kind === 'split').length
    const expected = replayModel(steps)
    if (isDeepStrictEqual(plain(persons), plain(expected))) continue
    for (const step of steps) t.comment(JSON.stringify(step))
    t.same(plain(persons), plain(expected), `seed ${seed}`)
    break
  }
  t.ok(repaired > SEEDS, `${repaired} repairs`)
  t.end()
})

t.test('keeps what no update explains with the person that keeps its uuid', (t) => {
  const at = Date.UTC(2026, 0)
  const stored = {
    projectId: 1, uuid: personUuid(1, 'jo'), distinctIds: ['jo', 'phone', 'laptop'], isIdentified: true, createdAt: at,
    properties: { plan: 'pro', imported: true, city: 'Rome' }
  }
  const set: ReplayedUpdate = { kind: 'person', projectId: 1, uuid: 'a', timestamp: at, receivedAt: at, distinctId: 'phone', set: { city: 'Rome' } }
  const persons = replayPersons([set], [stored], [], { kind: 'split', parts: [['phone', 'laptop']], at: at + 1 })
  t.match(plain(persons), [
    { uuid: personUuid(1, 'jo'), distinctIds: ['jo'], properties: { plan: 'pro', imported: true }, isIdentified: true },
    { distinctIds: ['laptop', 'phone'], properties: { city: 'Rome' } }
  ])
  t.notOk('city' in persons.find(({ distinctIds }) => distinctIds.includes('jo'))!.properties)
  t.end()
})

t.test('keeps persons of which no update is known', (t) => {
  const at = Date.UTC(2026, 0)
  const person = (...distinctIds: string[]): WholePerson => ({
    projectId: 1, uuid: personUuid(1, distinctIds[0]!), distinctIds, isIdentified: false, createdAt: at,
    properties: { of: distinctIds[0] }
  })
  const stored = [person('jo', 'phone'), person('anon')]
  const merge = { kind: 'merge', how: 'identify', projectId: 1, timestamp: at, receivedAt: at } as const
  const updates: ReplayedUpdate[] = [{ ...merge, uuid: 'a', distinctId: 'jo', otherDistinctId: 'phone' }]
  const persons = replayPersons(updates, stored, [], { kind: 'undo', uuid: 'of another' })
  t.match(plain(persons), [
    { uuid: personUuid(1, 'anon'), distinctIds: ['anon'], properties: { of: 'anon' }, createdAt: at },
    { uuid: personUuid(1, 'jo'), distinctIds: ['jo', 'phone'] }
  ])
  t.throws(() => replayPersons([], [person('jo', 'null')], [], { kind: 'split', parts: [['null']], at }), /no merge joins/)
  t.end()
})

function plain (persons: readonly WholePerson[]): unknown[] {
  return persons.map(({ uuid, distinctIds, properties, isIdentified, createdAt }) =>
    ({ uuid, distinctIds: distinctIds.toSorted(), properties, isIdentified, createdAt }))
    .sort((a, b) => a.distinctIds[0]! < b.distinctIds[0]! ? -1 : 1)
}
