import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import t from 'tap'
import type { GroupUpdate, PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { createRandom, shuffle } from '../../test/support/random.ts'
import { classifyFailure } from './apply-updates.ts'
import { divideUpdates, takeFitting } from './fit-updates.ts'
import { foldUpdates } from './fold-updates.ts'
import { type FoundRows, groupName, personName, type PersonRow } from './load-persons.ts'
import { PersonsState } from './persons-state.ts'
import { made } from './testing/large-persons.ts'
import { randomUpdates } from './testing/random-updates.ts'
import { applyToModel } from './testing/reference-model.ts'
import type { StoredPerson } from './testing/start-persons-stores.ts'

/** `MILLRACE_TEST_SEQUENCES=100000 npx node pipeline/persons/fit-updates.test.ts` for more. */
const SEQUENCES = Number(process.env.MILLRACE_TEST_SEQUENCES ?? (process.env.MILLRACE_TEST_LONG === '1' ? 5000 : 1000))
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 11)

const BYTES = 10_000

/** As they are found when all of them are large. */
function findAll (stored: readonly StoredPerson[]): FoundRows {
  const persons = new Map<string, PersonRow>()
  for (const [id, { uuid, isIdentified, distinctIds }] of stored.entries()) {
    const row: PersonRow = {
      id, projectId: 1, uuid, isIdentified, distinctIds, properties: null, bytes: BYTES, createdAt: new Date(0)
    }
    for (const distinctId of distinctIds) persons.set(personName(1, distinctId), row)
  }
  return { state: new PersonsState(), persons, groups: new Map() }
}

function loadAll (stored: readonly StoredPerson[]): PersonsState {
  const state = new PersonsState()
  for (const [id, { distinctIds, properties, ...person }] of stored.entries()) {
    const loaded = {
      ...person, id, projectId: 1, properties: { ...properties }, sizeBound: 3 * JSON.stringify(properties).length,
      isMeasured: false, leading: new Set<string>(), changed: false, mergedInto: null, absorbed: []
    }
    state.addPerson(loaded)
    for (const distinctId of distinctIds) state.loadPerson(distinctId, loaded)
  }
  return state
}

function describe (state: PersonsState, ids: readonly string[]): unknown {
  return ids.map((id) => {
    const person = state.findPerson(1, id)
    if (person === null) return null
    const { uuid, properties, isIdentified, createdAt } = person
    return { id, uuid, properties, isIdentified, createdAt }
  })
}

t.test(`${SEQUENCES} random sequences end the same in parts, whichever comes first`, async (t) => {
  t.comment(`seed ${SEED}`)
  const random = createRandom(SEED)
  let parts = 0
  const wrong: number[] = []
  for (let i = 0; i < SEQUENCES; i++) {
    const all = [randomUpdates(random, 1, 12), randomUpdates(random, 1, 12), randomUpdates(random, 1, 12)].flat()
      .map((update, n) => ({ ...update, uuid: made(n).uuid }))
    const mixed = shuffle(all, random)
    const before = Math.floor(random() * mixed.length)
    const stored = applyToModel(mixed.slice(0, before))
    const rest = mixed.slice(before)

    const divided = divideUpdates(rest, findAll(stored), random() < 0.5 ? 0 : 3 * BYTES)
    parts += divided.length
    const inParts = loadAll(stored)
    for (const part of shuffle(divided, random)) foldUpdates(inParts, part)
    const atOnce = loadAll(stored)
    foldUpdates(atOnce, rest)

    const ids = [...new Set(all.flatMap((update) => [update.distinctId, ...'otherDistinctId' in update ? [update.otherDistinctId] : []]))]
    const isSame = isDeepStrictEqual(describe(inParts, ids), describe(atOnce, ids))
    if (!isSame || divided.flat().length !== rest.length) wrong.push(i)
  }
  t.same(wrong, [])
  t.ok(parts > 3 * SEQUENCES, `${parts} parts`)
})

const person = (number: number, distinctId: string): PersonsUpdate => ({ ...made(number), kind: 'person', distinctId, set: { number } })

function storedPerson (distinctId: string): StoredPerson {
  return { uuid: distinctId, properties: {}, isIdentified: false, createdAt: 0, distinctIds: [distinctId] }
}

t.test('each person and group is in one part, however updates alternate, and what needs no memory in the first', async (t) => {
  const ids = Array.from({ length: 40 }, (_, i) => `large ${i}`)
  const found = findAll(ids.map(storedPerson))
  const group = (groupKey: string): GroupUpdate => ({ ...made(0), kind: 'group', groupType: 'company', groupKey, set: {} })
  const groups = new Map(['a', 'b'].map((groupKey) => [groupName(1, 'company', groupKey), {
    projectId: 1, groupType: 'company', groupTypeIndex: 0, groupKey, properties: null, bytes: BYTES, createdAt: new Date(0)
  }]))
  const updates = Array.from({ length: 10 }, (_, round) => [
    ...ids.map((id) => person(round, id)), person(round, `new ${round}`), group('a'), group('b'), group(`new ${round}`)
  ]).flat()

  const parts = divideUpdates(updates, { ...found, groups }, 10 * BYTES)
  t.equal(parts.length, 5, '42 large rows, ten a part')
  t.same(parts.flat().length, updates.length)
  const nameOf = (update: PersonsUpdate): string =>
    update.kind === 'group' ? update.groupKey : (update as { distinctId: string }).distinctId
  const entries = parts.flatMap((part, n) => part.map((update) => ({ n, name: nameOf(update) })))
  const partsOf = Map.groupBy(entries, ({ name }) => name)
  for (const [name, own] of partsOf) {
    t.equal(new Set(own.map(({ n }) => n)).size, 1, name)
    if (name.startsWith('new')) t.equal(own[0]?.n, 0, name)
  }
})

t.test('takes updates as long as what they name fits, and always one', async (t) => {
  const found = findAll(['a', 'b', 'c'].map(storedPerson))
  const updates = ['a', 'new', 'b', 'a', 'c', 'a'].map((id, n) => person(n, id))

  t.match(takeFitting(updates, found, 2 * BYTES), { updates: { length: 4 }, large: { length: 2 } })
  t.match(takeFitting(updates, found, 3 * BYTES), { updates: { length: 6 }, large: { length: 3 } })
  t.match(takeFitting(updates, found, 1), { updates: { length: 2 }, large: { length: 1 } })
  t.match(takeFitting(updates.slice(1, 2), found, 0), { updates: { length: 1 }, large: { length: 0 } })
})

function sqlState (code: string): Error {
  return Object.assign(new pg.DatabaseError('refused', 0, 'error'), { code })
}

t.test('isolates the update when Postgres blames the data, or our code fails on it', async (t) => {
  for (const code of ['21000', '22P02', '23514', '44000', '54001']) t.equal(classifyFailure(sqlState(code)), 'isolate', code)
  for (const error of [new RangeError('too deep'), new TypeError('no text'), new SyntaxError('no JSON')]) {
    t.equal(classifyFailure(error), 'isolate', error.name)
  }
})

t.test('retries when the server, the connection, the schema or rights are to blame', async (t) => {
  for (const code of ['08006', '25006', '28P01', '40001', '42P01', '42501', '53100', '57P01', '58030']) {
    t.equal(classifyFailure(sqlState(code)), 'retry', code)
  }
  for (const code of ['MILLRACE_POSTGRES_CONNECTION_LOST', 'ECONNREFUSED', 'ECONNRESET']) {
    t.equal(classifyFailure(Object.assign(new TypeError('driver'), { code })), 'retry', code)
  }
  for (const error of [new Error('something else'), 'a string', null, undefined]) {
    t.equal(classifyFailure(error), 'retry', String(error))
  }
})
