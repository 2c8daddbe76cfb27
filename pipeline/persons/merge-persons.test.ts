import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import type { MergeUpdate } from '../../schema/wire/persons-update.ts'
import { compareCpu } from '../../test/support/cpu-time.ts'
import { createRandom } from '../../test/support/random.ts'
import { foldUpdates } from './fold-updates.ts'
import { isIllegalDistinctId } from './merge-persons.ts'
import { absorbedPersons, PersonsState, type PersonState } from './persons-state.ts'
import { MAX_PROPERTIES_BYTES, measureProperties } from './properties-size.ts'
import { largeProperties, loadStored, made } from './testing/large-persons.ts'

const LARGE = largeProperties(MAX_PROPERTIES_BYTES - 10_000)

/** Times the CPU of copying a large person: with a copy for each merge it is 2,000 times that, without some ten. */
const COPYING = 200

t.test('recognises what clients send when they have no id', async (t) => {
  const illegal = [
    'anonymous', 'GUEST', 'distinctId', 'distinct_id', 'ID', 'not_authenticated', 'Email', 'undefined', 'TRUE', 'false',
    '[object Object]', 'NaN', 'None', 'none', 'null', '0', '"null"', "'Anonymous'", '', '  ', '""', ' "0" ', '\t',
    '00000000-0000-0000-0000-000000000000', '0'.repeat(32), '{00000000-0000-0000-0000-000000000000}', `"${'0'.repeat(32)}"`
  ]
  t.same(illegal.filter((id) => !isIllegalDistinctId(id)), [])
})

t.test('accepts ids that only resemble those', async (t) => {
  const legal = ['user_1', 'NULL', 'nan', '[object object]', 'NONE', '00', 'anonymous-1', '"', 'id1', "'null\"", '$device:0',
    '00000000-0000-0000-0000-000000000001', '0'.repeat(31), '00000000-0000-0000-0000-0000000000000']
  t.same(legal.filter((id) => isIllegalDistinctId(id)), [])
})

t.test('merges thousands into a large person without copying it each time', async (t) => {
  const mergeInto = () => {
    const state = new PersonsState()
    loadStored(state, 'large', LARGE)
    for (let i = 0; i < 2000; i++) loadStored(state, `id-${i}`, i % 2 === 0 ? {} : { [`n${i}`]: i })
    return { state, ...foldUpdates(state, Array.from({ length: 2000 }, (_, i) => force(i, 'large', `id-${i}`))) }
  }

  const times = compareCpu(() => ({ ...LARGE }), mergeInto, COPYING)
  t.ok(times < COPYING, `${times} times the CPU`)
  const { state, merges, refused } = mergeInto()
  t.same([...new Set(merges)], ['merged'])
  t.ok(refused.length > 0, 'those that do not fit any more are refused')
  const person = state.findPerson(1, 'id-5')
  t.equal(person?.sizeBound, measureProperties(person!.properties))
})

t.test('merges a large person on and on without copying it each time', async (t) => {
  const mergeOn = () => {
    const state = new PersonsState()
    loadStored(state, 'id-0', LARGE)
    for (let i = 1; i <= 2000; i++) loadStored(state, `id-${i}`, { k0000: i, last: i })
    foldUpdates(state, Array.from({ length: 2000 }, (_, i) => force(i, `id-${i + 1}`, `id-${i}`)))
    return state
  }

  const times = compareCpu(() => ({ ...LARGE }), mergeOn, COPYING)
  t.ok(times < COPYING, `${times} times the CPU`)
  const state = mergeOn()
  t.match(state.findPerson(1, 'id-2000')?.properties, { k0000: 2000, k0001: 'x', last: 2000 })
})

t.test('remembers each merge once, in chains and trees of any depth', async (t) => {
  const random = createRandom(3)
  const count = 1000
  const state = new PersonsState()
  for (let i = 0; i <= 2 * count; i++) loadStored(state, `id-${i}`, {})
  // A list of all, copied at each merge: it is in the order in which distinct ids are moved.
  const lists = new Map(state.persons.map((person) => [person, [] as PersonState[]]))
  const updates: MergeUpdate[] = []
  for (let i = 0; i < count; i++) updates.push(force(i, `id-${i + 1}`, `id-${i}`))
  for (let i = 0; i < count; i++) {
    updates.push(force(count + i, `id-${count + Math.floor(random() * count)}`, `id-${Math.floor(random() * 2 * count)}`))
  }
  for (const update of updates) {
    const target = state.findPerson(1, update.distinctId)!
    const source = state.findPerson(1, update.otherDistinctId)!
    foldUpdates(state, [update])
    if (target !== source) lists.set(target, [...lists.get(target)!, source, ...lists.get(source)!])
  }

  const alive = state.persons.filter(({ mergedInto }) => mergedInto === null)
  const remembered = state.persons.reduce((sum, { absorbed }) => sum + absorbed.length, 0)
  t.equal(remembered, state.persons.length - alive.length)
  t.same(alive.filter((person) => !isDeepStrictEqual([...absorbedPersons(person)], lists.get(person))), [])
})

t.test('follows a long chain of merges once', async (t) => {
  const state = new PersonsState()
  const count = 50_000
  for (let i = 0; i <= count; i++) loadStored(state, `id-${i}`, {})
  foldUpdates(state, Array.from({ length: count }, (_, i) => force(i, `id-${i + 1}`, `id-${i}`)))

  const last = state.persons.at(-1)!
  t.equal(state.findPerson(1, 'id-0'), last)
  t.ok(state.persons.every(({ mergedInto }) => mergedInto === last || mergedInto === null))
  t.equal([...absorbedPersons(last)].length, count)
})

function force (number: number, distinctId: string, otherDistinctId: string): MergeUpdate {
  return { ...made(number), kind: 'merge', how: 'force', distinctId, otherDistinctId }
}
