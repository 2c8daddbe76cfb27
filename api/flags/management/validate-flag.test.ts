import t from 'tap'
import type { FlagDefinition, MalformedFlagError } from '../../../engines/flags/flag-definition.ts'
import { buildDefinitions, buildFlag } from '../../../engines/flags/testing/build-definitions.ts'
import { findDependents, validateFlag } from './validate-flag.ts'

const NEW_ID = 0

function validate (filters: unknown, key = 'f', others: FlagDefinition[] = []): Pick<MalformedFlagError, 'code' | 'attr'> | null {
  const cohorts = [{ id: 5, isStatic: false, filters: { type: 'AND', values: [{ key: 'cohort', type: 'behavioral' }] } }]
  try {
    validateFlag(buildFlag(key, filters, { id: NEW_ID }), buildDefinitions(others, cohorts))
    return null
  } catch (error) {
    const { code, attr } = error as MalformedFlagError
    return { code, attr }
  }
}

/** Filters with one condition of one property. */
function withProperty (property: object): object {
  return { groups: [{ properties: [{ key: 'a', value: 1, type: 'person' }, { key: 'a', type: 'person', ...property }] }] }
}

function withVariants (...percentages: unknown[]): object {
  const variants = percentages.map((percentage, i) => ({ key: `v${i}`, name: '', rollout_percentage: percentage }))
  return { groups: [], multivariate: { variants } }
}

t.test('accepts every kind of flag', async (t) => {
  const fine: unknown[] = [
    { groups: [] },
    {},
    { groups: [{ properties: [], rollout_percentage: null, variant: null }], multivariate: null, payloads: null },
    withVariants(100),
    withVariants(33.3, 33.3, 33.4),
    { multivariate: { variants: [{ key: 'a', rollout_percentage: 40 }], rest_without_variant: true } },
    { ...withVariants(50, 50), groups: [{ variant: 'v1' }], payloads: { v0: '1', true: {} } },
    withProperty({ operator: 'regex', value: '^a+$' }),
    withProperty({ operator: 'is_set' }),
    withProperty({ operator: 'between', value: [1, 2] }),
    withProperty({ type: 'group', group_type_index: 1, value: 'x' }),
    { groups: [{ aggregation_group_type_index: 0 }], aggregation_group_type_index: 1 },
    { groups: [{}], holdout: { id: 1, exclusion_percentage: 10 }, early_exit: true, feature_enrollment: true }
  ]

  for (const filters of fine) t.equal(validate(filters), null, JSON.stringify(filters))
})

t.test('names the invalid field', async (t) => {
  const property = 'filters__groups__0__properties__1'
  const cases: Array<[unknown, string, string]> = [
    ['x', 'filters', 'invalid'],
    [undefined, 'filters', 'required'],
    [{ groups: {} }, 'filters__groups', 'invalid'],
    [{ groups: [[]] }, 'filters__groups__0', 'invalid'],
    [{ groups: [{ rollout_percentage: 101 }] }, 'filters__groups__0__rollout_percentage', 'invalid'],
    [{ groups: [{}, { rollout_percentage: 'all' }] }, 'filters__groups__1__rollout_percentage', 'invalid'],
    [{ groups: [{ variant: 'nope' }] }, 'filters__groups__0__variant', 'invalid'],
    [{ groups: [{ properties: 5 }] }, 'filters__groups__0__properties', 'invalid'],
    [withVariants(50, 49), 'filters__multivariate__variants', 'invalid'],
    [withVariants(50, 50, 1), 'filters__multivariate__variants', 'invalid'],
    [{ multivariate: { variants: [{ key: 'a', rollout_percentage: 60 }, { key: 'b', rollout_percentage: 60 }], rest_without_variant: true } },
      'filters__multivariate__variants', 'invalid'],
    [withVariants(150, -50), 'filters__multivariate__variants__0__rollout_percentage', 'invalid'],
    [{ multivariate: { variants: [{ key: 'a', rollout_percentage: 50 }, { key: 'a', rollout_percentage: 50 }] } },
      'filters__multivariate__variants__1__key', 'unique'],
    [{ multivariate: { variants: [{ key: 'a b', rollout_percentage: 100 }] } }, 'filters__multivariate__variants__0__key', 'invalid_key'],
    [{ payloads: { nope: 1 } }, 'filters__payloads', 'invalid'],
    [{ aggregation_group_type_index: 7 }, 'filters__aggregation_group_type_index', 'invalid'],
    [{ groups: [{ aggregation_group_type_index: 7 }] }, 'filters__groups__0__aggregation_group_type_index', 'invalid'],
    [{ holdout: { id: 1, exclusion_percentage: 200 } }, 'filters__holdout__exclusion_percentage', 'invalid'],
    [withProperty({ operator: 'sounds_like', value: 'x' }), `${property}__operator`, 'invalid_choice'],
    [withProperty({ operator: 'regex', value: '(' }), `${property}__value`, 'invalid_regex'],
    [withProperty({ operator: 'not_regex', value: '(?<=a)b' }), `${property}__value`, 'invalid_regex'],
    [withProperty({ operator: 'gt', value: 'many' }), `${property}__value`, 'invalid'],
    [withProperty({ operator: 'between', value: [2, 1] }), `${property}__value`, 'invalid'],
    [withProperty({ operator: 'is_date_before', value: '2024-02-30' }), `${property}__value`, 'invalid'],
    [withProperty({ operator: 'semver_gt', value: 'latest' }), `${property}__value`, 'invalid'],
    [withProperty({ operator: 'exact' }), `${property}__value`, 'required'],
    [withProperty({ key: '', value: 1 }), `${property}__key`, 'required'],
    [withProperty({ type: 'event', value: 1 }), `${property}__type`, 'invalid_choice'],
    [withProperty({ type: 'group', value: 1 }), `${property}__group_type_index`, 'required'],
    [withProperty({ type: 'group', value: 1, group_type_index: 9 }), `${property}__group_type_index`, 'invalid'],
    [withProperty({ type: 'cohort', value: 99 }), `${property}__value`, 'invalid'],
    [withProperty({ type: 'cohort', value: 5 }), `${property}__value__type`, 'invalid_choice'],
    [withProperty({ type: 'flag', key: 'nobody', value: true }), `${property}__key`, 'invalid'],
    [withProperty({ type: 'flag', key: 'f', value: 7 }), `${property}__value`, 'invalid']
  ]

  for (const [filters, attr, code] of cases) t.same(validate(filters), { code, attr }, JSON.stringify(filters))
})

t.test('keys are of letters, digits, hyphens and underscores, and unique', async (t) => {
  const others = [buildFlag('taken', { groups: [] }, { id: 7 })]

  t.equal(validate({}, 'New-flag_2'), null)
  t.same(validate({}, ''), { code: 'required', attr: 'key' })
  for (const key of ['a b', 'ä', 'a.b', 'a\n']) t.same(validate({}, key), { code: 'invalid_key', attr: 'key' })
  t.same(validate({}, 'x'.repeat(401)), { code: 'invalid', attr: 'key' })
  t.same(validate({}, 'taken', others), { code: 'unique', attr: 'key' })
})

t.test('refuses dependency cycles', async (t) => {
  const dependsOn = (key: string): object => ({ groups: [{ properties: [{ key, type: 'flag', value: true }] }] })
  const others = [buildFlag('b', dependsOn('a'), { id: 8 }), buildFlag('a', {}, { id: 9 })]

  const cycle = { code: 'invalid', attr: 'filters__groups' }
  t.same(validate(dependsOn('b'), 'a', others.slice(0, 1)), cycle)
  t.same(validate(dependsOn('f'), 'f'), cycle)
  t.same(findDependents({ id: 9, key: 'a' }, buildDefinitions(others)), ['b'])
})

t.test('other broken flags do not prevent writing', async (t) => {
  t.equal(validate({ groups: [{}] }, 'f', [buildFlag('broken', 'rubbish', { id: 3 })]), null)
})
