import t from 'tap'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import type { MergeUpdate, PersonUpdate } from '../../schema/wire/persons-update.ts'
import { createRandom, pickOne, type Random } from '../../test/support/random.ts'
import { foldUpdates } from './fold-updates.ts'
import { PersonsState, type Properties } from './persons-state.ts'
import { MAX_PROPERTIES_BYTES, measureProperties } from './properties-size.ts'
import { foldByCopying, type CopiedPerson, sorted } from './testing/copying-fold.ts'
import { largeProperties, loadStored, made } from './testing/large-persons.ts'

/** `MILLRACE_TEST_SEQUENCES=2000 npx node pipeline/persons/fold-updates.test.ts` for more. */
const SEQUENCES = Number(process.env.MILLRACE_TEST_SEQUENCES ?? (process.env.MILLRACE_TEST_LONG === '1' ? 40 : 6))
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 7)

const IDS = ['a', 'b', 'c', 'd', 'e', 'f']
const NAMES = ['plan', '__proto__', 'nul\u0001', 'utm "source"', 'ünï', '😀', '7', '12', '3', 'constructor', 'big', 'bigger']
const QUARTER = MAX_PROPERTIES_BYTES / 4
const VALUES: unknown[] = [
  1, -0, -1.5e-300, 1e21, true, null, '', 'x', '"\\\n\u0001', 'é😀\ud800', [], ['q', { z: 1, a: 'ß' }], { a: { 'b"': [1, 2] } },
  parseStoredJson('[9007199254740993,12345678901234567891234]'),
  'x'.repeat(QUARTER), 'é'.repeat(QUARTER), '\u0001'.repeat(QUARTER / 10), { inner: ['"'.repeat(QUARTER / 2)] },
  // Together with few others these come to the very limit, and over it by one byte.
  'y'.repeat(2 * QUARTER - 10), 'z'.repeat(2 * QUARTER - 20)
]

t.test(`${SEQUENCES} random sequences end as if each change copied and measured all properties`, async (t) => {
  t.comment(`seed ${SEED}`)
  const random = createRandom(SEED)
  const wrong: unknown[] = []
  let refusals = 0
  for (let i = 0; i < SEQUENCES; i++) {
    const stored = IDS.slice(3).map((id) => [id, randomProperties(random, 5)] as const)
      .filter(([, properties]) => measureProperties(properties) <= MAX_PROPERTIES_BYTES)
    const updates = Array.from({ length: 40 }, () => randomUpdate(random))
    const state = new PersonsState()
    for (const [id, properties] of stored) loadStored(state, id, properties)

    const { refused } = foldUpdates(state, updates)
    const copied = foldByCopying(MAX_PROPERTIES_BYTES, new Map(stored.map(([id, properties]): [string, CopiedPerson] =>
      [id, { properties: { ...properties }, isIdentified: false, changed: false }])), updates)

    refusals += refused.length
    const letters = refused.map(({ payload }) => {
      const [{ set, setOnce, unset }] = parseStoredJson(Buffer.from(payload).toString()) as [PersonUpdate]
      return sorted({ set, setOnce, unset })
    })
    if (JSON.stringify(letters) !== JSON.stringify(copied.refused)) wrong.push([i, 'dead letters'])
    for (const id of IDS) {
      const person = state.findPerson(1, id)
      const expected = copied.persons.get(id)
      if (describe(person) !== describe(expected)) wrong.push([i, id])
      if (person === null) continue
      const size = measureProperties(person.properties)
      if (person.isMeasured ? person.sizeBound !== size : person.sizeBound < size) wrong.push([i, id, 'size', person.sizeBound, size])
    }
  }
  t.same(wrong, [])
  t.ok(refusals > SEQUENCES, `${refusals} refusals`)
})

t.test('writes the properties of a large person once, however many small changes a batch has', async (t) => {
  const state = new PersonsState()
  loadStored(state, 'full', largeProperties(MAX_PROPERTIES_BYTES - 100))
  const updates = Array.from({ length: 2000 }, (_, i): PersonUpdate =>
    ({ ...made(i), kind: 'person', distinctId: 'full', set: i % 2 === 0 ? { n: i } : { refused: 'x'.repeat(200) } }))

  let written = 0
  const stringify = JSON.stringify
  t.intercept(JSON, 'stringify', {
    value: (...args: Parameters<typeof stringify>) => {
      const text = stringify(...args)
      written += text.length
      return text
    }
  })
  const { refused } = foldUpdates(state, updates)

  t.equal(refused.length, 1000)
  // The properties once, and each update a few times; before it was a gigabyte.
  t.ok(written < 4 * MAX_PROPERTIES_BYTES, `${written} characters of JSON were written`)
})

function describe (person: CopiedPerson | null | undefined): string {
  if (person === null || person === undefined) return 'nobody'
  return `${person.isIdentified} ${person.changed} ${sorted(person.properties)}`
}

function randomUpdate (random: Random): PersonUpdate | MergeUpdate {
  const common = {
    ...made(Math.floor(random() * 1e9)),
    distinctId: pickOne(IDS, random),
    ...(random() < 0.7 && { set: randomProperties(random, 3) }),
    ...(random() < 0.3 && { setOnce: randomProperties(random, 3) }),
    ...(random() < 0.4 && { unset: [pickOne(NAMES, random), pickOne(NAMES, random)] })
  }
  if (random() < 0.75) return { ...common, kind: 'person', ...(random() < 0.1 && { identify: true }) }
  return { ...common, kind: 'merge', otherDistinctId: pickOne(IDS, random), how: pickOne(['identify', 'force'] as const, random) }
}

function randomProperties (random: Random, most: number): Properties {
  // Not by assignment: `__proto__` is among the names.
  return Object.fromEntries(Array.from({ length: 1 + Math.floor(random() * most) }, () =>
    [pickOne(NAMES, random), pickOne(VALUES, random)]))
}
