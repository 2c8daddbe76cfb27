import pg from 'pg'
import t from 'tap'
import { classifyFailure } from './apply-updates.ts'

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
