import fc from 'fast-check'

/** Few names and values, so that rules and events meet. */
export const RULED_EVENTS = ['a', 'b', 'c', '$identify'] as const

const name = fc.constantFrom('a', 'b', 'c', '$lib')
const text = fc.constantFrom('', 'a', 'ab', 'abc', '1', 'true', '\ufffd')
const scalar = fc.oneof(text, fc.constantFrom(0, 1, 2, -1, 1.5, 10, 12345678901234567000, true, false))

const comparison = fc.oneof(
  fc.record({ type: fc.constant('event'), operator: fc.constantFrom('exact', 'is_not', 'icontains', 'regex'), value: fc.constantFrom('a', 'b', '^[ab]$') }),
  fc.record({ type: fc.constant('distinct_id'), operator: fc.constantFrom('exact', 'ends_with', 'not_regex'), value: fc.constantFrom('1', '2', '^1') }),
  fc.record({
    type: fc.constant('property'), key: name,
    operator: fc.constantFrom('exact', 'is_not', 'icontains', 'not_icontains', 'starts_with', 'gt', 'lte', 'regex', 'not_regex', 'is_set', 'is_not_set', 'semver_gt'),
    value: fc.constantFrom('1', '2', '10')
  }),
  fc.record({ type: fc.constant('property'), key: name, operator: fc.constantFrom('exact', 'is_not', 'icontains', 'ends_with'), value: scalar }),
  fc.record({ type: fc.constant('sdk'), value: text }),
  fc.record({ type: fc.constant('ip'), value: fc.constantFrom('10.0.0.0/8', '2001:db8::/32', '10.1.2.3') })
)

const condition = fc.letrec<{ condition: object }>((tie) => ({
  condition: fc.oneof({ depthSize: 'small', withCrossShrink: true },
    comparison,
    fc.tuple(comparison, fc.boolean()).map(([one, negation]) => ({ ...one, negation })),
    fc.record({
      type: fc.constantFrom('AND', 'OR'), values: fc.array(tie('condition'), { minLength: 1, maxLength: 3 }), negation: fc.boolean()
    }))
})).condition

const edit = fc.oneof(
  fc.record({ type: fc.constantFrom('remove_property', 'hash_property'), property: name }),
  fc.record({ type: fc.constant('set_property'), property: name, value: fc.oneof(scalar, fc.constant(null), fc.constant([1, { a: 2 }])) }),
  fc.constant({ type: 'truncate_ip' })
)

const actions = fc.oneof(
  fc.constant([{ type: 'drop' }]),
  fc.constantFrom(0.3, 0.7).map((rate) => [{ type: 'sample', rate }]),
  fc.array(edit, { minLength: 1, maxLength: 3 })
)

/** A rule that compiles. */
export const randomRule = fc.record({ condition: fc.option(condition, { freq: 20 }), actions })
