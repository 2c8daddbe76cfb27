import t from 'tap'
import { compareResults } from './compare-results.ts'
import { type Figure } from './question.ts'

function figure (value: number, reference: number, target: Figure['target']): Figure {
  return { name: 'x', value, unit: 'us', reference: { name: 'y', value: reference }, ...(target && { target }) }
}

t.test('a run on a machine of half the speed is no regression', async (t) => {
  const baseline = new Map([['batch/cpu', figure(20, 10, { atMost: 3 })]])
  const now = new Map([['batch/cpu', figure(40, 20, { atMost: 3 })]])

  t.same(compareResults(baseline, now), [])
})

t.test('a ratio that grew by half is reported when less is better', async (t) => {
  const baseline = new Map([['batch/cpu', figure(20, 10, { atMost: 3 })]])
  const now = new Map([['batch/cpu', figure(30, 10, { atMost: 3 })]])

  t.match(compareResults(baseline, now), [/batch\/cpu: ratio 3.00, was 2.00/])
})

t.test('a ratio that fell by half is reported when more is better, and only then', async (t) => {
  const baseline = new Map([['single/requests', figure(8, 10, { atLeast: 0.8 })], ['p50', figure(8, 10, undefined)]])
  const now = new Map([['single/requests', figure(4, 10, { atLeast: 0.8 })], ['p50', figure(4, 10, undefined)]])

  t.match(compareResults(baseline, now), [/single\/requests/])
  t.equal(compareResults(baseline, now).length, 1)
})
