import t from 'tap'
import { describeAlert, readSubject, subjectKey, withSubject } from './describe-alert.ts'

t.test('an alert is described by its condition, a board by its days', async (t) => {
  t.equal(describeAlert({ condition: { is: 'below', value: 10 }, every: 'hour' }), 'is below 10, each hour')
  t.equal(describeAlert({ condition: { is: 'rises_by', value: 50 }, every: 'day' }), 'rises by 50 % in a week, each day')
  t.equal(describeAlert({ condition: null, every: 'week' }), 'sent each Monday')
})

t.test('what it is about is read from the address, and changes what else it may have', async (t) => {
  t.same(readSubject('saved_query 7'), { kind: 'saved_query', id: 7 })
  for (const key of [null, '', 'cohort 1', 'question x', 'question 1 2']) t.equal(readSubject(key), null)
  t.equal(subjectKey({ kind: 'board', id: 3 }), 'board 3')
  const alert = { about: { kind: 'question', id: 1 }, condition: { is: 'above', value: 5 }, every: 'day' } as const
  const board = withSubject<Parameters<typeof describeAlert>[0] & { about: { kind: 'question' | 'saved_query' | 'board', id: number } }>(alert, { kind: 'board', id: 2 })
  t.match(board, { condition: null, every: 'day' })
  t.match(withSubject(board, { kind: 'saved_query', id: 2 }), { condition: { is: 'below' }, every: 'hour' })
  t.match(withSubject<typeof board>(alert, { kind: 'saved_query', id: 2 }), { condition: { value: 5 }, every: 'day' })
})
