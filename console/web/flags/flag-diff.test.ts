import t from 'tap'
import { changedFields, cutAlike, describeDifferences, type Difference } from './flag-diff.ts'
import { type Condition, EMPTY_FLAG, type FlagDefinition, type FlagFilters } from './flag-filters.ts'

const flag = (filters: FlagFilters, fields: Partial<FlagDefinition> = {}): FlagDefinition => ({ ...EMPTY_FLAG, key: 'f', filters, ...fields })
const differences = (before: FlagFilters, after: FlagFilters): Array<Array<Difference[keyof Difference]>> =>
  describeDifferences(flag(before), flag(after)).map(({ what, before, after }) => [what, before, after])
const plan = (value: string, rollout = 100): Condition => ({ properties: [{ key: 'plan', operator: 'exact', value }], rollout_percentage: rollout })

t.test('the same has no difference, in whatever order the keys are', async (t) => {
  const one = flag({ groups: [{ properties: [], rollout_percentage: 5 }], payloads: {} })
  const other = flag({ payloads: {}, groups: [{ rollout_percentage: 5, properties: [] }] })

  t.same(describeDifferences(one, other), [])
  t.same(changedFields(one, other), [])
})

t.test('fields read as words', async (t) => {
  const before = flag({})
  const after = flag({}, { key: 'g', name: 'Name', active: false, ensure_experience_continuity: true, evaluation_runtime: 'server', bucketing_identifier: 'device_id' })

  t.same(describeDifferences(before, after), [
    { what: 'Key', before: '"f"', after: '"g"' },
    { what: 'Name', before: null, after: '"Name"' },
    { what: 'Switch', before: 'on', after: 'off for everyone' },
    { what: 'Users keep their value when they are identified', before: 'no', after: 'yes' },
    { what: 'For SDKs', before: 'on servers and clients', after: 'on servers' },
    { what: 'Users are told apart by', before: 'distinct id', after: 'device id' }
  ])
})

t.test('conditions read as sentences, and those before and behind a change are left out', async (t) => {
  t.same(differences({ groups: [plan('pro')] }, { groups: [plan('pro', 20)] }), [
    ['Condition 1', 'Persons where plan is "pro"', '20 % of persons where plan is "pro"']
  ])
  t.same(differences({ groups: [plan('a'), plan('b')] }, { groups: [plan('new'), plan('a'), plan('b')] }), [
    ['Condition 1', null, 'Persons where plan is "new"']
  ])
  t.same(differences({ groups: [plan('a'), plan('a'), plan('b')] }, { groups: [plan('a'), plan('b')] }), [
    ['Condition 2', 'Persons where plan is "a"', null]
  ])
  t.same(differences({ groups: [plan('a'), plan('b'), plan('c')] }, { groups: [plan('b'), plan('d')] }), [
    ['Condition 1', 'Persons where plan is "a"', 'Persons where plan is "b"'],
    ['Condition 2', 'Persons where plan is "b"', 'Persons where plan is "d"'],
    ['Condition 3', 'Persons where plan is "c"', null]
  ])
  t.same(differences({ groups: [plan('a'), plan('b')] }, { groups: [plan('b'), plan('a')] }).length, 2, 'the order counts')
})

t.test('what a sentence leaves out is shown as JSON', async (t) => {
  const filter = { key: 'plan', operator: 'exact', value: 'pro' }
  t.same(differences({ groups: [{ properties: [filter] }] }, { groups: [{ properties: [{ ...filter, type: 'person' }] }] }), [
    ['Condition 1', '{"properties":[{"key":"plan","operator":"exact","value":"pro"}]}', '{"properties":[{"key":"plan","operator":"exact","type":"person","value":"pro"}]}']
  ])
  t.same(differences({}, { early_exit: true } as FlagFilters), [['early_exit', null, 'true']])
})

t.test('variants and payloads are compared by their names', async (t) => {
  const variants = [{ key: 'control', rollout_percentage: 50 }, { key: 'test', name: 'Test', rollout_percentage: 50 }]
  t.same(differences(
    { multivariate: { variants }, payloads: { test: '{"a":1}', control: 'x' } },
    { multivariate: { variants: [{ key: 'test', name: 'Test', rollout_percentage: 70 }, { key: 'new', rollout_percentage: 30 }] }, payloads: { test: { a: 2 } } }
  ), [
    ['Variant control', '50 %', null],
    ['Variant test', '50 %, called "Test"', '70 %, called "Test"'],
    ['Variant new', null, '30 %'],
    ['Payload for test', '{"a":1}', '{"a":2}'],
    ['Payload for control', 'x', null]
  ])
  t.same(differences({ multivariate: { variants } }, { multivariate: { variants: variants.toReversed() } }), [
    ['Order of the variants', 'control, test', 'test, control']
  ])
})

t.test('every kind of change shows something, with hundreds of conditions too', async (t) => {
  const many = Array.from({ length: 1000 }, (_, n) => plan(String(n)))
  t.equal(differences({ groups: many }, { groups: many.with(700, plan('x')) }).length, 1)
  const some = many.slice(0, 400)
  t.equal(differences({ groups: some }, { groups: some.with(300, plan('x')) }).length, 1)
  t.same(differences({}, { groups: [] }), [['Filters', '{}', '{"groups":[]}']])
})

t.test('long texts are cut where they are the same', async (t) => {
  const same = 'x'.repeat(1000)
  const [before, after] = cutAlike(`${same}before${same}`, `${same}after${same}`)
  t.match(before, /^…x{60}before.*…$/)
  t.match(after, /^…x{60}after.*…$/)
  t.ok(before.length < 410)
  t.same(cutAlike('a', 'b'), ['a', 'b'])
})
