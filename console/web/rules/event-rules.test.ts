import t from 'tap'
import { describeCondition, describePrediction, describeRule, type EventRule, planMove, readContent } from './event-rules.ts'

const is = (key: string, value: unknown) => ({ type: 'property', key, value })

t.test('a rule reads as a sentence', async (t) => {
  for (const [rule, sentence] of [
    [{ condition: null, actions: [{ type: 'truncate_ip' }] }, 'Every event: cut its address to the network.'],
    [{ condition: { type: 'event', value: 'order paid' }, actions: [{ type: 'drop' }] }, 'When the event is "order paid": drop it.'],
    [{
      condition: { type: 'AND', values: [{ type: 'event', value: ['a', 'b'] }, { type: 'OR', values: [is('plan', 'free'), { ...is('plan', 0), operator: 'is_not_set' }] }] },
      actions: [{ type: 'hash_property', property: 'email' }, { type: 'set_property', property: 'plan', value: null }]
    }, 'When the event is "a" or "b" and (plan is "free" or plan is not set): hash email and set plan to null.'],
    [{ condition: { ...is('age', 18), operator: 'lt', negation: true }, actions: [{ type: 'sample', rate: 0.125 }] },
      'When not (age < 18): store it for 12.5 % of all distinct ids.'],
    [{ condition: { type: 'AND', negation: true, values: [{ type: 'sdk', value: 'web' }, { type: 'sdk_version', operator: 'semver_lt', value: '1.2.0' }] }, actions: [{ type: 'remove_property', property: 'x' }] },
      'When not (the SDK is "web" and the version of the SDK is before version "1.2.0"): remove x.'],
    [{ condition: { type: 'ip', value: ['10.0.0.0/8', '::1'] }, actions: [{ type: 'drop' }] }, 'When the address is in 10.0.0.0/8 or ::1: drop it.']
  ] as const) t.equal(describeRule(rule), sentence)
})

t.test('a draft that is not a rule yet is worded as far as it is one', async (t) => {
  for (const draft of [undefined, null, 1, 'x', [], {}, { values: [] }, { type: 'AND', values: [null, 3] }, { type: 'nothing', value: {} }]) {
    t.type(describeCondition(draft), 'string', JSON.stringify(draft))
    t.type(describeRule({ condition: draft, actions: draft }), 'string')
  }
})

t.test('only what makes a version is taken of a draft', async (t) => {
  const actions = [{ type: 'drop' }]

  t.same(readContent({ actions }), { fields: { condition: null, actions } })
  t.match(readContent({ actions, active_version: 1 }), { error: { attr: 'active_version' } })
  t.match(readContent({ condition: null }), { error: { attr: 'actions' } })
  t.match(readContent([]), { error: { attr: null } })
})

t.test('what a rule would have done reads as a sentence', async (t) => {
  const prediction = {
    events: 5000,
    matched: 40,
    dropped: 0,
    sampled: 30,
    changed: 10,
    without_address: 0,
    complete: true,
    names: [],
    libs: [],
    samples: []
  }

  t.equal(describePrediction(prediction), '40 of 5,000 events pass: 30 left out of the sample, 10 changed.')
  t.equal(describePrediction({ ...prediction, sampled: 0, changed: 0, complete: false }), '40 of 5,000 newest events pass: all are stored as they are.')
  t.equal(describePrediction({ ...prediction, matched: 0 }), 'It would not have affected any of the 5,000 candidate events.')
})

t.test('a move changes as few positions as possible, and always the order as asked', async (t) => {
  const rules = (...places: number[]): EventRule[] => places.map((position, id) => ({ id, position }) as EventRule)
  const apply = (list: EventRule[], from: number, by: -1 | 1): number[] => {
    const changes = new Map(planMove(list, from, by).map(({ id, position }) => [id, position]))
    for (const place of changes.values()) t.ok(Number.isInteger(place) && place >= 0 && place <= 1_000_000, `${place}`)
    const others = list.map(({ id }) => id).filter((id) => id !== from)
    const now = new Map(list.map(({ id, position }) => [id, position]))
    const order = (): number[] =>
      [...now].sort(([one, at], [other, then]) => at - then || one - other).map(([id]) => id)
    for (const [id, position] of changes) {
      now.set(id, position)
      t.same(order().filter((each) => each !== from), others, 'nothing else changes its order, not for a moment')
    }
    return order()
  }

  t.same(planMove(rules(10, 20, 30), 0, 1), [{ id: 0, position: 25 }])
  t.same(planMove(rules(10, 20, 30), 2, -1), [{ id: 2, position: 15 }])
  t.same(planMove(rules(10, 20), 1, -1), [{ id: 1, position: 4 }])
  t.same(planMove(rules(10, 20), 0, -1), [], 'it is the first')
  t.same(planMove(rules(10, 20), 1, 1), [], 'it is the last')
  const last = [999_998, 999_999, 1_000_000, 1_000_000]
  for (const positions of [[10, 20, 30, 40], [0, 0, 0, 0], [0, 1, 2, 3], [5, 5, 6, 7], last]) {
    for (const [from, by] of [[0, 1], [1, 1], [2, 1], [1, -1], [2, -1], [3, -1]] as const) {
      const wanted = [0, 1, 2, 3]
      wanted.splice(from + by, 0, ...wanted.splice(from, 1))
      t.same(apply(rules(...positions), from, by), wanted, `${positions.join()} ${from} ${by}`)
    }
  }
})
