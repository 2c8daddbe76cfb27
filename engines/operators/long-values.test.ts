/** Clients send properties as long as they like: operators say the same of them, in time that does not matter. */
import t, { type Test } from 'tap'
import { LINEAR_GROWTH, measureGrowth } from '../../test/support/cpu-time.ts'
import { findOperator } from './property-operators.ts'

const NOW = Date.UTC(2026, 5, 15, 12)

/** Operator, filter value, property value, expected answer. */
type Case = [string, unknown, unknown, boolean]

function check (t: Test, cases: Case[], timezone = 'UTC'): void {
  for (const [operator, value, actual, expected] of cases) {
    const { test } = findOperator(operator)!(value, { timezone, invalid: () => {} })
    t.equal(test(actual, NOW), expected, `${operator} ${String(value).slice(0, 40)} ${String(actual).slice(0, 40)}`)
  }
}

t.test('long texts are compared as short ones, also when what was made of them is remembered', async (t) => {
  const long = 'aB'.repeat(2000)
  const zeros = '0'.repeat(4000)
  const cases: Case[] = [
    ['exact', long.toUpperCase(), long, true], ['exact', [long, 'x'], long.toLowerCase(), true], ['exact', long, `${long}a`, false],
    ['exact', 'i\u0307'.repeat(2000), '\u0130'.repeat(2000), true], ['is_not', 'a', long, true], ['exact', [], long, false],
    ['icontains', 'BABAB', long, true], ['not_icontains', 'bb', long, true], ['starts_with', 'ABA', long, true], ['ends_with', 'BAB', long, true],
    ['icontains', '\u00c4', `${long}\u00e4`, false], ['icontains_multi', ['bb', 'BA'], long, true], ['regex', 'aB', long, true],
    ['gt', 7, `8.${zeros}`, true], ['lt', 7, `${zeros}8x`, false], ['between', [8, 9], `${zeros}8`, true],
    ['is_date_exact', '2026-01-01T00:00:00.5Z', `2026-01-01T00:00:00.5${zeros}Z`, true],
    ['is_date_before', '2026-01-02', `2026-01-01 00:00${' '.repeat(4000)}Z`, true], ['is_date_after', '2026-01-01', `2026-01-01 00:00${' '.repeat(4000)}x`, false],
    ['is_date_exact', '-7d', `${zeros}7d`, true], ['is_date_after', '2026-01-01', `${zeros}1780000000`, true], ['is_date_before', '2026-01-01', `2026-02-30 00:00${' '.repeat(4000)}`, false],
    ['semver_eq', '1.2.3', `1.2.3-${zeros}`, true], ['semver_gt', '1.2.3', `1.2.3.${'4'.repeat(4000)}`, false], ['semver_gt', '1.2', `${' '.repeat(4000)}v1.3`, true]
  ]
  for (let round = 0; round < 2; round++) check(t, cases)
  check(t, cases, 'Europe/Berlin')
})

t.test('lower case never has fewer characters, on which exact relies', async (t) => {
  for (let point = 0; point <= 0x10ffff; point++) {
    const text = String.fromCodePoint(point)
    if (text.toLowerCase().length < text.length) t.fail(`U+${point.toString(16)}`)
  }
  t.pass()
})

t.test('an object is made a text once for all conditions', async (t) => {
  let read = 0
  const value = new Proxy({ b: 'X', a: 1 }, { ownKeys (target) { read++; return Reflect.ownKeys(target) } })

  check(t, [
    ['exact', { a: 1, b: 'x' }, value, true], ['exact', ['{}', '{"a":1,"b":"x"}'], value, true], ['is_not', 'a', value, true], ['icontains', '"a":1', value, true],
    ['not_icontains', 'c', value, true], ['starts_with', '{', value, true], ['regex', 'X', value, true], ['semver_gt', '1.0.0', value, false]
  ])

  t.equal(read, 1)
})

t.test('a number, a pattern of versions and a list take no more than their length', async (t) => {
  const growth = measureGrowth((size) => {
    const deep = JSON.parse(`${'['.repeat(size)}true,"TRUE"${']'.repeat(size)}`) as unknown
    for (const [operator, value, actual, expected] of [
      ['gt', 5, `${'1'.repeat(size / 2)}x`, false],
      ['semver_wildcard', `${'*'.repeat(size)}x`, '1.2.3', false],
      ['exact', [], deep, true],
      ['exact', [], [[true], ['false', deep]], false]
    ] as Case[]) {
      const { test } = findOperator(operator)!(value, { timezone: 'UTC', invalid: () => {} })
      t.ok(test(actual, NOW) === expected, operator)
    }
  }, 200_000)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU, where numbers and versions took 256 times`)

  check(t, [
    ['semver_wildcard', '1.2.**', '1.2.9', true], ['semver_wildcard', '1.*.*', '1.5.0', true], ['semver_wildcard', '1*', '1.5.0', true],
    ['semver_wildcard', '1.2..*', '1.2.9', false], ['semver_wildcard', '.*', '7.0.0', true], ['semver_wildcard', '1.*x', '1.5.0', false]
  ])
})
