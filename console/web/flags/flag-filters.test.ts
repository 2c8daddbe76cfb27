import t from 'tap'
import { readExactly, readJsonOrText } from '../frame/json-text.ts'
import { cohortNames, describeCondition, describeFilter, describeRollout, readValue, replaceAt, writeValue } from './flag-filters.ts'

t.test('conditions read as sentences', async (t) => {
  for (const [condition, sentence] of [
    [{}, 'Everyone'],
    [{ rollout_percentage: 20 }, '20 % of everyone'],
    [{ properties: [{ key: 'plan', operator: 'exact', value: ['pro', 'team'] }], rollout_percentage: 100 }, 'Persons where plan is "pro" or "team"'],
    [{ properties: [{ key: 'age', operator: 'gt', value: 18 }, { key: 'mail', operator: 'is_set' }], rollout_percentage: 5, variant: 'test' },
      '5 % of persons where age > 18 and mail is set: variant test'],
    [{ aggregation_group_type_index: 0, properties: [] }, 'All groups of type 0'],
    [{ properties: [{ key: 'id', type: 'cohort', operator: 'not_in', value: 7 }] }, 'Persons where not in cohort 7'],
    [{ properties: [{ key: 'base', type: 'flag', value: 'control' }] }, 'Persons where flag base is "control"']
  ] as const) t.equal(describeCondition(condition as never), sentence)
  t.equal(describeFilter({ key: 'x', operator: 'from_tomorrow', value: 1 }), 'x from_tomorrow 1', 'an operator of a later version')
  t.equal(describeRollout({}), 'nobody')
  t.equal(describeRollout({ groups: [{}, {}], multivariate: { variants: [{ key: 'a', rollout_percentage: 100 }] } }), '2 conditions, 1 variant')
})

t.test('a cohort is shown by its name once known', async (t) => {
  t.teardown(() => { cohortNames.value = new Map() })
  cohortNames.value = new Map([['7', 'Power "users"']])
  const inCohort = (value: unknown): string => describeFilter({ key: 'id', type: 'cohort', operator: 'in', value })

  t.equal(inCohort(7), 'in cohort "Power \\"users\\""')
  t.equal(inCohort('7'), 'in cohort "Power \\"users\\""', 'ids are also sent as text')
  t.equal(inCohort([7, 8]), 'in cohort "Power \\"users\\"" or 8', 'one that is gone has its id')
})

t.test('a value that was shown in a text field and not touched stays the same', async (t) => {
  for (const value of ['pro', '', '42', 'true', '"quoted"', '[1]', 42, true, null, ['a', 'b'], { a: 1 }, 'a, b', '1.10']) {
    t.same(readValue(writeValue(value)), value, JSON.stringify(value))
    t.same(readJsonOrText(writeValue(value, readJsonOrText)), value, `${JSON.stringify(value)} of an event`)
  }
  t.equal(writeValue(undefined), '')
  t.equal(writeValue('1.10', readJsonOrText), '"1.10"')
  t.equal(writeValue(readExactly('1234567890123456789'), readJsonOrText), '1234567890123456789')
})

t.test('a number that is written otherwise than JavaScript writes it is text, which is compared as such', async (t) => {
  for (const text of ['1.10', '1e5', '-0', '1234567890123456789', '9007199254740993']) t.equal(readValue(text), text)
  t.same(readValue('[1.10, 2, 1234567890123456789]'), ['1.10', 2, '1234567890123456789'])
  t.same(['42', ' 0.5 ', '-1'].map(readValue), [42, 0.5, -1])
})

t.test('an element of a list is changed or removed', async (t) => {
  t.same(replaceAt(['a', 'b', 'c'], 1, 'x'), ['a', 'x', 'c'])
  t.same(replaceAt(['a', 'b', 'c'], 1, null), ['a', 'c'])
})
