/** Properties by the time of their events: what an import sets, in whatever order it comes, beside live events. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { createRandom, pickOne, type Random, shuffle } from '../../test/support/random.ts'
import { foldUpdates } from './fold-updates.ts'
import { PersonsState, type Properties } from './persons-state.ts'
import { made } from './testing/large-persons.ts'

const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 57)
const IDS = ['a', 'b', 'c']
const NAMES = ['plan', 'city', '__proto__', 'visits']
const START = Date.UTC(2023, 0)

/** The person of the ids after the updates, each in a batch of its own: as read from Postgres in between. */
function foldAll (updates: readonly PersonsUpdate[], batchSize: number): Properties {
  let state = new PersonsState()
  for (let at = 0; at < updates.length; at += batchSize) {
    foldUpdates(state, updates.slice(at, at + batchSize))
    const stored = new PersonsState()
    for (const id of IDS) {
      const person = state.findPerson(1, id)
      if (person === null) continue
      const others = IDS.map((other) => state.findPerson(1, other) === person ? stored.findPerson(1, other) : null)
      const same = others.find((other) => other !== null) ?? { ...person, mergedInto: null, absorbed: [] }
      stored.loadPerson(id, same)
    }
    state = stored
  }
  return state.findPerson(1, 'a')?.properties ?? {}
}

function historical (random: Random, index: number): PersonsUpdate {
  const names = NAMES.filter(() => random() < 0.5)
  return {
    kind: 'person', ...made(index), timestamp: START + Math.floor(random() * 12), distinctId: pickOne(IDS, random), byTime: true,
    set: Object.fromEntries(names.map((name) => [name, `value ${Math.floor(random() * 5)}`]))
  }
}

const merge = (index: number, other: string): PersonsUpdate =>
  ({ kind: 'merge', ...made(index), timestamp: START, distinctId: 'a', otherDistinctId: other, how: 'force' })

/** Of each name the value of the latest time; of two at once the greater one. */
function latest (updates: readonly PersonsUpdate[]): Properties {
  const found = new Map<string, { at: number, value: unknown }>()
  for (const update of updates) {
    if (update.kind !== 'person') continue
    for (const [name, value] of Object.entries(update.set ?? {})) {
      const known = found.get(name)
      const isTie = update.timestamp === known?.at && String(value) > String(known.value)
      if (known === undefined || update.timestamp > known.at || isTie) found.set(name, { at: update.timestamp, value })
    }
  }
  return Object.fromEntries([...found].map(([name, { value }]) => [name, value]))
}

t.test('of history the latest value stays, in any order, with repetitions, in batches of any size', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = createRandom(SEED)
  const wrong: unknown[] = []
  for (let round = 0; round < 300; round++) {
    const updates = Array.from({ length: 12 }, (_, i) => historical(random, i))
    const expected = latest(updates)
    const sent = shuffle([...updates, ...updates.slice(0, 4), merge(20, 'b'), merge(21, 'c')], random)
    // The last one, too, may be that of a person who is merged before.
    const found = foldAll(sent, 1 + Math.floor(random() * sent.length))
    if (!isDeepStrictEqual(found, expected)) wrong.push({ sent, found, expected })
  }
  t.same(wrong.slice(0, 2), [])
})

t.test('what a live event sets stays against history, before and after it, but for one that is older', async (t) => {
  const live = (timestamp: number, value: string): PersonsUpdate =>
    ({ kind: 'person', ...made(1), timestamp, distinctId: 'a', set: { plan: value } })
  const import1: PersonsUpdate = { ...live(START + 5, 'history'), kind: 'person', byTime: true, distinctId: 'a' }
  const now = Date.now()
  for (const [updates, plan] of [
    [[live(now, 'live'), import1], 'live'],
    [[import1, live(now, 'live')], 'live'],
    [[import1, live(now, 'live'), live(now - 10, 'live again'), import1], 'live again'],
    [[live(START, 'older'), import1], 'history'],
    [[import1, live(START, 'older')], 'history'],
    [[live(START + 9, 'late, but newer'), import1], 'late, but newer'],
    [[import1, live(START + 9, 'late, but newer'), live(START + 8, 'later here'), import1], 'later here']
  ] as const) {
    for (const size of [1, 9]) t.same(foldAll(updates, size), { plan }, `${plan} of ${updates.length}`)
  }
})

t.test('a row of an export of persons has the latest, whatever its time', async (t) => {
  const event: PersonsUpdate = { kind: 'person', ...made(1), timestamp: START + 5, distinctId: 'a', byTime: true, set: { plan: 'event' } }
  const row: PersonsUpdate = {
    kind: 'merge', ...made(2), distinctId: 'a', otherDistinctId: 'b', how: 'force', byTime: true, set: { plan: 'row' }
  }
  t.same(foldAll([event, row, event], 1), { plan: 'row' })
  t.same(foldAll([row, event], 2), { plan: 'row' })
})

t.test('what history unsets is gone, unless something later is there', async (t) => {
  const at = (offset: number, change: object): PersonsUpdate =>
    ({ kind: 'person', ...made(offset), timestamp: START + offset, distinctId: 'a', byTime: true, ...change })
  t.same(foldAll([at(1, { set: { plan: 1, city: 1 } }), at(2, { unset: ['plan'] })], 1), { city: 1 })
  t.same(foldAll([at(3, { set: { plan: 1 } }), at(2, { unset: ['plan'] })], 1), { plan: 1 })
  t.same(foldAll([at(2, { setOnce: { plan: 2 } }), at(1, { set: { plan: 1 } })], 1), { plan: 2 })
})
