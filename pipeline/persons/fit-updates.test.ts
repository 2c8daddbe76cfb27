import pg from 'pg'
import t from 'tap'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { classifyFailure } from './apply-updates.ts'
import { takeFitting } from './fit-updates.ts'
import { type FoundRows, personName, type PersonRow } from './load-persons.ts'
import { PersonsState } from './persons-state.ts'
import { made } from './testing/large-persons.ts'
import type { StoredPerson } from './testing/start-persons-stores.ts'

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

const person = (number: number, distinctId: string): PersonsUpdate => ({ ...made(number), kind: 'person', distinctId, set: { number } })

function storedPerson (distinctId: string): StoredPerson {
  return { uuid: distinctId, properties: {}, isIdentified: false, createdAt: 0, distinctIds: [distinctId] }
}

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
