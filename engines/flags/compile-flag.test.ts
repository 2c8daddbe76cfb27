import t from 'tap'
import { compileFlagSet, tryFlags } from './evaluate-flags.ts'
import type { CohortDefinition, FlagDefinition } from './flag-definition.ts'
import type { Outcome } from './flag-outcome.ts'
import { NO_FACTS, type Subject } from './subject.ts'
import { buildDefinitions, buildFlag, buildSubject } from './testing/build-definitions.ts'

const KNOWN = { stored: NO_FACTS }

/** Evaluates the last of the flags for a user with nothing stored. */
function evaluate (flags: FlagDefinition[], rest: Partial<Subject> = {}, cohorts: CohortDefinition[] = []): Outcome {
  const set = compileFlagSet(buildDefinitions(flags.map((flag, i) => ({ ...flag, id: i + 1 })), cohorts))
  const position = flags.length - 1
  return tryFlags(set, buildSubject('u1', { ...KNOWN, ...rest }), [position])!.outcomes[0]!
}

function person (key: string, value: unknown, operator = 'exact'): object {
  return { key, value, operator, type: 'person' }
}

t.test('evaluates the two consistency tables of the SDKs to their exact totals', async (t) => {
  const variants = [50, 20, 20, 5, 5].map((percentage, i) =>
    ({ key: `${['first', 'second', 'third', 'fourth', 'fifth'][i]}-variant`, rollout_percentage: percentage }))
  const set = compileFlagSet(buildDefinitions([
    buildFlag('simple-flag', { groups: [{ properties: [], rollout_percentage: 45 }] }),
    buildFlag('multivariate-flag', { groups: [{ rollout_percentage: 55 }], multivariate: { variants } })
  ]))
  const totals: Record<string, number> = {}

  for (let i = 0; i < 1000; i++) {
    for (const { key, value } of tryFlags(set, buildSubject(`distinct_id_${i}`), [0, 1])!.outcomes) {
      totals[`${key} ${value}`] = (totals[`${key} ${value}`] ?? 0) + 1
    }
  }

  t.same(totals, {
    'simple-flag true': 446,
    'simple-flag false': 554,
    'multivariate-flag false': 444,
    'multivariate-flag first-variant': 290,
    'multivariate-flag second-variant': 110,
    'multivariate-flag third-variant': 111,
    'multivariate-flag fourth-variant': 24,
    'multivariate-flag fifth-variant': 21
  })
})

t.test('the first condition set that matches decides', async (t) => {
  const flag = buildFlag('f', {
    groups: [
      { properties: [person('plan', 'pro')], rollout_percentage: 100, variant: 'b' },
      { properties: [], rollout_percentage: 100, variant: 'gone' }
    ],
    multivariate: { variants: [{ key: 'a', rollout_percentage: 100 }, { key: 'b', rollout_percentage: 0 }] },
    payloads: { a: '{"x":1}', b: { y: 2 } }
  })

  t.match(evaluate([flag], { personOverrides: { plan: 'pro' } }),
    { value: 'b', reason: 'condition_match', conditionIndex: 0, payload: { y: 2 } })
  t.match(evaluate([flag]), { value: 'a', reason: 'condition_match', conditionIndex: 1, payload: '{"x":1}' },
    'a variant that does not exist is not forced')
})

t.test('reports the highest reason when nothing matches, of equals the later', async (t) => {
  const miss = { properties: [person('plan', 'pro')] }
  const out = { properties: [], rollout_percentage: 0 }
  const cases: Array<[object[], string, number | null]> = [
    [[], 'no_condition_match', null],
    [[miss, miss], 'no_condition_match', 1],
    [[out, miss], 'out_of_rollout_bound', 0],
    [[miss, out, miss, out], 'out_of_rollout_bound', 3],
    [[{ ...out, aggregation_group_type_index: 0 }], 'no_group_type', 0],
    [[miss, { ...out, aggregation_group_type_index: 0 }], 'no_condition_match', 0]
  ]

  for (const [groups, reason, conditionIndex] of cases) {
    t.match(evaluate([buildFlag('f', { groups })]), { value: false, reason, conditionIndex }, JSON.stringify(groups))
  }
})

t.test('a missing percentage is 100, and variants that sum to less leave the rest plain true', async (t) => {
  t.equal(evaluate([buildFlag('f', { groups: [{}] })]).value, true)
  const variants = [{ key: 'a', rollout_percentage: 0 }]
  t.equal(evaluate([buildFlag('f', { groups: [{}], multivariate: { variants } })]).value, true)
})

t.test('early exit stops at the first condition whose rollout is missed', async (t) => {
  const groups = [{ rollout_percentage: 0 }, { rollout_percentage: 100 }]

  t.equal(evaluate([buildFlag('f', { groups })]).value, true)
  t.match(evaluate([buildFlag('f', { groups, early_exit: true })]),
    { value: false, reason: 'out_of_rollout_bound', conditionIndex: 0 })
})

t.test('an inactive flag is false, whatever its filters', async (t) => {
  t.match(evaluate([buildFlag('f', 'rubbish', { active: false })]), { value: false, failed: false, reason: 'flag_disabled' })
})

t.test('an opt-in or opt-out decides before everything else', async (t) => {
  const enrolled = { feature_enrollment: true, groups: [{ rollout_percentage: 100 }], payloads: { true: 'p' } }
  const older = { super_groups: [{ properties: [person('$feature_enrollment/f', ['true'])] }], groups: [] }

  t.match(evaluate([buildFlag('f', enrolled)], { personOverrides: { '$feature_enrollment/f': 'true' } }),
    { value: true, reason: 'super_condition_value', payload: 'p' })
  t.match(evaluate([buildFlag('f', enrolled)], { personOverrides: { '$feature_enrollment/f': false } }),
    { value: false, reason: 'super_condition_value' })
  t.match(evaluate([buildFlag('f', enrolled)]), { value: true, reason: 'condition_match' })
  t.match(evaluate([buildFlag('f', older)], { personOverrides: { '$feature_enrollment/f': true } }),
    { value: true, reason: 'super_condition_value' })
  t.match(evaluate([buildFlag('f', older)]), { value: false, reason: 'no_condition_match' })
})

t.test('a holdout excludes the same users from every flag', async (t) => {
  const groups = [{ rollout_percentage: 100 }]
  const held = (percentage: number): object => ({ groups, holdout: { id: 7, exclusion_percentage: percentage } })

  // The hash of u1 for holdouts is 0.511.
  t.match(evaluate([buildFlag('f', held(52))]),
    { value: 'holdout-7', reason: 'holdout_condition_value', conditionIndex: null })
  t.equal(evaluate([buildFlag('g', held(51))]).value, true)
  t.equal(evaluate([buildFlag('f', { groups, holdout_groups: [{ variant: 'holdout-3', rollout_percentage: 52 }] })]).value,
    'holdout-3')
})

t.test('a group flag hashes the group key, and needs one', async (t) => {
  const flag = buildFlag('f', { aggregation_group_type_index: 0, groups: [{ rollout_percentage: 50 }] })
  const byGroup = (key?: string): Outcome => evaluate([flag], { groupKeys: [key] })

  t.match(byGroup(), { value: false, reason: 'no_group_type' })
  const values = new Set(Array.from({ length: 50 }, (_, i) => byGroup(`company-${i}`).value))
  t.same(values, new Set([true, false]))
  t.equal(evaluate([flag], { distinctId: 'u2', groupKeys: ['company-1'] }).value, byGroup('company-1').value)
})

t.test('one condition may aggregate by persons and another by groups', async (t) => {
  const flag = buildFlag('f', {
    aggregation_group_type_index: 0,
    groups: [
      { properties: [{ key: 'size', value: 10, operator: 'gt', type: 'group', group_type_index: 0 }] },
      { properties: [person('beta', true)], aggregation_group_type_index: null }
    ]
  })

  t.equal(evaluate([flag], { groupKeys: ['acme'], groupOverrides: [{ size: 11 }] }).conditionIndex, 0)
  t.equal(evaluate([flag], { groupKeys: ['acme'], personOverrides: { beta: true } }).conditionIndex, 1)
  t.equal(evaluate([flag], { personOverrides: { beta: 'true' } }).value, true)
})

t.test('a flag that hashes device ids needs one', async (t) => {
  const flag = buildFlag('f', { groups: [{}] }, { bucketing_identifier: 'device_id' })

  t.match(evaluate([flag]), { value: false, reason: 'out_of_rollout_bound' })
  t.equal(evaluate([flag], { deviceId: 'd1' }).value, true)
})

t.test('a flag may depend on another flag, by key or id', async (t) => {
  const dependsOn = (key: string, value: unknown): FlagDefinition =>
    buildFlag('dependent', { groups: [{ properties: [{ key, value, type: 'flag', operator: 'flag_evaluates_to' }] }] })
  const on = buildFlag('on', { groups: [{}] })
  const off = buildFlag('off', { groups: [] })
  const variant = buildFlag('v', { groups: [{}], multivariate: { variants: [{ key: 'blue', rollout_percentage: 100 }] } })

  t.equal(evaluate([on, dependsOn('on', true)]).value, true)
  t.equal(evaluate([on, dependsOn('1', true)]).value, true)
  t.equal(evaluate([on, dependsOn('on', false)]).value, false)
  t.equal(evaluate([off, dependsOn('off', false)]).value, true)
  t.equal(evaluate([variant, dependsOn('v', true)]).value, true)
  t.equal(evaluate([variant, dependsOn('v', 'blue')]).value, true)
  t.equal(evaluate([variant, dependsOn('v', 'red')]).value, false)
  t.match(evaluate([dependsOn('nobody', true)]), { value: false, failed: false, reason: 'missing_dependency' })
})

t.test('flags in a dependency cycle fail, and so do flags that depend on them', async (t) => {
  const dependsOn = (key: string, other: string): FlagDefinition =>
    buildFlag(key, { groups: [{ properties: [{ key: other, value: true, type: 'flag' }] }] })
  const set = compileFlagSet(buildDefinitions([dependsOn('a', 'b'), dependsOn('b', 'a'), dependsOn('c', 'a'), buildFlag('d', { groups: [{}] })]))

  const { outcomes, hasErrors } = tryFlags(set, buildSubject('u1'), [0, 1, 2, 3])!

  t.same(outcomes.map(({ failed }) => failed), [true, true, true, false])
  t.equal(hasErrors, true)
})

t.test('a flag with malformed filters fails alone', async (t) => {
  const malformed: unknown[] = [
    null, [], 'x', { groups: {} }, { groups: [1] }, { groups: [{ properties: 'x' }] }, { groups: [{ rollout_percentage: '5' }] },
    { groups: [{ properties: [{ value: 1 }] }] }, { groups: [{ properties: [{ key: 'a', value: 1, operator: 'zzz' }] }] },
    { groups: [{ properties: [{ key: 'a' }] }] }, { groups: [{ properties: [{ key: 'a', value: 1, type: 'event' }] }] },
    { groups: [{ properties: [{ key: 'id', value: 99, type: 'cohort' }] }] }, { multivariate: [] }, { payloads: 3 },
    { groups: [{ variant: 4 }] }, { aggregation_group_type_index: 'company' }, { holdout: {} }
  ]
  const set = compileFlagSet(buildDefinitions([
    ...malformed.map((filters, i) => buildFlag(`bad-${i}`, filters)),
    buildFlag('good', { groups: [{}] })
  ]))

  const { outcomes } = tryFlags(set, buildSubject('u1', KNOWN), set.flags.map((_, i) => i))!

  t.same(outcomes.filter(({ failed }) => !failed).map(({ key }) => key), ['good'])
  t.equal(outcomes[0]?.reason, 'malformed_filters')
  t.equal(set.malformed.get('bad-8'), 'filters__groups__0__properties__0__operator')
})

t.test('an invalid regular expression matches nothing, and the flag does not fail', async (t) => {
  const flag = (operator: string): FlagDefinition => buildFlag('f', { groups: [{ properties: [person('a', '(', operator)] }] })

  t.match(evaluate([flag('regex')], { personOverrides: { a: '(' } }), { value: false, failed: false })
  t.match(evaluate([flag('not_regex')], { personOverrides: { a: 'x' } }), { value: false, failed: false })
})

t.test('dynamic cohorts are nested groups with negated leaves, static ones are stored', async (t) => {
  const adults: CohortDefinition = {
    id: 4,
    isStatic: false,
    filters: { type: 'OR', values: [{ type: 'AND', values: [person('age', 18, 'gte'), { ...person('banned', true), negation: true }] }] }
  }
  const nested: CohortDefinition = { id: 5, isStatic: false, filters: { type: 'AND', values: [{ key: 'id', type: 'cohort', value: 4 }] } }
  const listed: CohortDefinition = { id: 6, isStatic: true, filters: null }
  const cohorts = [adults, nested, listed]
  const flag = (value: unknown, operator = 'in'): FlagDefinition =>
    buildFlag('f', { groups: [{ properties: [{ key: 'id', type: 'cohort', value, operator }] }] })

  t.equal(evaluate([flag(4)], { personOverrides: { age: 20 } }, cohorts).value, true)
  t.equal(evaluate([flag(4)], { personOverrides: { age: 20, banned: true } }, cohorts).value, false)
  t.equal(evaluate([flag(5)], { personOverrides: { age: 20 } }, cohorts).value, true)
  t.equal(evaluate([flag(4, 'not_in')], { personOverrides: { age: 2 } }, cohorts).value, true)
  t.equal(evaluate([flag(6)], {}, cohorts).value, false)
  t.equal(evaluate([flag(6)], { stored: { ...NO_FACTS, cohortIds: new Set([6]) } }, cohorts).value, true)
})

t.test('a cohort that depends on itself makes the flag fail', async (t) => {
  const cohorts = [{ id: 4, isStatic: false, filters: { type: 'AND', values: [{ key: 'id', type: 'cohort', value: 4 }] } }]

  t.equal(evaluate([buildFlag('f', { groups: [{ properties: [{ type: 'cohort', value: 4 }] }] })], {}, cohorts).failed, true)
})
