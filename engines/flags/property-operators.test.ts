import t, { type Test } from 'tap'
import { parseStoredJson } from '../body/parse-json.ts'
import { findOperator, PROPERTY_OPERATORS } from '../operators/property-operators.ts'

const NOW = Date.UTC(2026, 5, 15, 12)

/** Operator, filter value, property value, expected answer. */
type Case = [string, unknown, unknown, boolean]

function check (t: Test, cases: Case[], timezone = 'UTC'): void {
  for (const [operator, value, actual, expected] of cases) {
    const { test } = findOperator(operator)!(value, { timezone, invalid: () => {} })
    t.equal(test(actual, NOW), expected, `${JSON.stringify(actual)} ${operator} ${JSON.stringify(value)}`)
  }
}

t.test('long numbers are compared with all their digits', async (t) => {
  const long = parseStoredJson('9007199254740993')
  check(t, [
    ['exact', '9007199254740993', long, true],
    ['exact', '9007199254740992', long, false],
    ['exact', ['a', '9007199254740993'], long, true],
    ['exact', Number('9007199254740993'), long, true],
    ['exact', { a: [9007199254740993n.toString()] }, { a: [long] }, false],
    ['icontains', '40993', long, true],
    ['regex', '^9007199254740993$', long, true],
    ['gt', 9007199254740000, long, true],
    ['exact', '1e21', 1e21, true],
    ['is_date_after', '2026-01-01', long, true]
  ])
})

t.test('exact compares texts ignoring case, with one or several', async (t) => {
  check(t, [
    ['exact', 'Pro', 'pRO', true],
    ['exact', 'pro', 'prof', false],
    ['exact', ['free', 'Pro'], 'pro', true],
    ['exact', ['free'], 'pro', false],
    ['exact', 'STRASSE', 'strasse', true],
    ['exact', 7, '7', true],
    ['exact', '7', 7, true],
    ['exact', 1.5, '1.5', true],
    ['exact', { b: 1, a: [2] }, { a: [2], b: 1 }, true],
    ['is_not', 'pro', 'Pro', false],
    ['is_not', 'pro', 'free', true],
    ['is_not', ['pro', 'free'], 'free', false],
    ['is_not', 'pro', null, true]
  ])
})

t.test('exact takes booleans and their texts as equal, and nothing else as a boolean', async (t) => {
  check(t, [
    ['exact', 'true', true, true],
    ['exact', true, 'TRUE', true],
    ['exact', ['true'], true, true],
    ['exact', false, 'False', true],
    ['exact', 'false', 'hello', false],
    ['exact', 'true', 1, false],
    ['exact', false, 0, false],
    ['is_not', 'false', 'hello', true],
    ['exact', null, null, true]
  ])
})

t.test('text operators ignore the case of ASCII letters and take any value as text', async (t) => {
  check(t, [
    ['icontains', 'EXAMPLE', 'me@example.com', true],
    ['icontains', '23', 1234, true],
    ['icontains', 'x', 'me@foo.com', false],
    ['icontains', 'É', 'é', false],
    ['not_icontains', 'example', 'me@Example.com', false],
    ['icontains_multi', ['foo', 'BAR'], 'a bar', true],
    ['icontains_multi', 'bar', 'a bar', true],
    ['icontains_multi', [], 'a bar', false],
    ['not_icontains_multi', ['foo', 'bar'], 'bars', false],
    ['not_icontains_multi', ['foo', 'bar'], 'baz', true],
    ['icontains', ['foo', 'BAR'], 'a bar', true],
    ['not_icontains', ['foo', 'bar'], 'bars', false],
    ['not_icontains', [], 'bars', true],
    ['regex', [], 'bars', false],
    ['not_regex', [], 'bars', false],
    ['regex', ['^foo$', 'r$'], 'bar', true],
    ['not_regex', ['^foo$', 'r$'], 'bar', false],
    ['not_starts_with', ['you', 'me'], 'me@x', false],
    ['starts_with', 'Me@', 'me@x', true],
    ['not_starts_with', 'me', 'you', true],
    ['ends_with', '.COM', 'a.com', true],
    ['not_ends_with', '.com', 'a.com', false]
  ])
})

t.test('regex searches anywhere; an invalid pattern passes neither form', async (t) => {
  check(t, [
    ['regex', '\\d{3}', 'abc123', true],
    ['regex', '^a.c$', 'abc', true],
    ['regex', 'ABC', 'abc', false],
    ['regex', '(?i)ABC', 'abc', true],
    ['regex', '12', 4125, true],
    ['not_regex', '\\d', 'abc', true],
    ['regex', '(', '(', false],
    ['not_regex', '(', 'x', false],
    ['regex', '(?<=a)b', 'ab', false],
    ['regex', 'x', 'x'.repeat(100_000), false],
    ['not_regex', 'y', 'x'.repeat(100_000), false]
  ])
  t.equal(findOperator('not_regex')!('(', { timezone: 'UTC', invalid: () => {} }).whenAbsent, false)
})

t.test('number operators take numbers and texts that are numbers, nothing else', async (t) => {
  check(t, [
    ['gt', 5, 6, true],
    ['gt', 5, 5, false],
    ['gt', '5', '6', true],
    ['gte', 5, '5', true],
    ['lt', 5, -1, true],
    ['lt', '1e3', 999.5, true],
    ['lte', 5, '5.0', true],
    ['gt', 5, '6 apples', false],
    ['lt', 5, 'abc', false],
    ['lt', 5, null, false],
    ['lt', 5, true, false],
    ['lt', 5, '', false],
    ['gt', 'five', 6, false],
    ['between', [1, 5], 1, true],
    ['between', [1, 5], '5', true],
    ['between', [1, 5], 5.01, false],
    ['between', [5, 1], 3, false],
    ['between', 'x', 3, false],
    ['not_between', [1, 5], 0, true],
    ['not_between', [1, 5], 3, false],
    ['not_between', [1, 5], 'x', false]
  ])
})

t.test('date operators compare instants, absolute and relative', async (t) => {
  check(t, [
    ['is_date_before', '2024-06-01', '2024-05-31', true],
    ['is_date_before', '2024-06-01', '2024-06-01', false],
    ['is_date_before', '1900-01-01', '0001-01-01T00:00:00Z', true],
    ['is_date_exact', '0099-12-31', '0099/12/31 00:00', true],
    ['is_date_exact', '0099-12-31', '1999-12-31', false],
    ['is_date_before', '2024-06-01', '0099-02-29', false],
    ['is_date_after', '2024-06-01', '2024-06-01T00:00:01Z', true],
    ['is_date_exact', '2024-06-01', '2024-06-01T00:00:00.000Z', true],
    ['is_date_exact', '2024-06-01T02:00:00+02:00', '2024-06-01 00:00', true],
    ['is_date_before', '2024-06-01', 1_700_000_000, true],
    ['is_date_before', '2024-06-01', 1_700_000_000_000, true],
    ['is_date_before', '2024-06-01', '1700000000', true],
    ['is_date_after', '-7d', '2026-06-09', true],
    ['is_date_after', '2026-02-01', '2 Mar 2026 10:00:00 GMT', true],
    ['is_date_after', '2026-02-01', '30 Feb 2026 10:00:00 GMT', false],
    ['is_date_after', '7d', '2026-06-08', false],
    ['is_date_before', '-1m', '2026-05-15T11:59:59Z', true],
    ['is_date_before', '-24h', '2026-06-14T12:00:01Z', false],
    ['is_date_after', '-1y', '2025-06-15T12:00:01Z', true],
    ['is_date_before', '2024-06-01', 'soon', false],
    ['is_date_before', '2024-02-30', '2020-01-01', false],
    ['is_date_after', '2024-06-01', true, false],
    ['is_date_after', '2024-06-01', null, false],
    ['is_date_before', '10000d', '1990-01-01', false],
    ['is_date_after', '2024-06-01', 'Sun, 02 Jun 2024 00:00:00 GMT', true]
  ])
})

t.test('dates without an offset are read in the time zone of the project', async (t) => {
  check(t, [
    ['is_date_exact', '2024-06-01', '2024-05-31T22:00:00Z', true],
    ['is_date_exact', '2024-12-01 08:30', '2024-12-01T07:30:00Z', true],
    ['is_date_exact', '2024-06-01T00:00:00Z', '2024-06-01 02:00:00', true]
  ], 'Europe/Berlin')
})

t.test('semver operators read versions as SDKs send them', async (t) => {
  check(t, [
    ['semver_eq', '1.2.3', 'v1.2.3', true],
    ['semver_eq', '1.2', '1.2.0', true],
    ['semver_eq', '3.8', '3.08', true],
    ['semver_eq', '1.2.3', '1.2.3.9', true],
    ['semver_eq', '1.2.3', '1.2.3-beta+7', true],
    ['semver_neq', '1.2.3', '1.2.4', true],
    ['semver_neq', '1.2.3', 'abc', false],
    ['semver_gt', '1.9.0', '1.10.0', true],
    ['semver_gte', '2', '2.0.0', true],
    ['semver_lt', '2.0.0', '1.99.99', true],
    ['semver_lte', '2.0.0', '2.0.1', false],
    ['semver_tilde', '1.2.3', '1.2.9', true],
    ['semver_tilde', '1.2.3', '1.3.0', false],
    ['semver_tilde', '1.2.3', '1.2.2', false],
    ['semver_caret', '1.2.3', '1.9.0', true],
    ['semver_caret', '1.2.3', '2.0.0', false],
    ['semver_caret', '0.2.3', '0.2.9', true],
    ['semver_caret', '0.2.3', '0.3.0', false],
    ['semver_caret', '0.0.3', '0.0.3', true],
    ['semver_caret', '0.0.3', '0.0.4', false],
    ['semver_wildcard', '1.*', '1.7.2', true],
    ['semver_wildcard', '1.*', '2.0.0', false],
    ['semver_wildcard', '1.2.*', '1.2.9', true],
    ['semver_wildcard', '1.*.*', '1.2.9', true],
    ['semver_wildcard', '*', '9.9.9', true],
    ['semver_gt', '1.x', '2.0.0', false],
    ['semver_gt', '1.0.0', 2, true],
    ['semver_gt', '1.0.0', null, false]
  ])
})

t.test('a missing property passes negated operators only', async (t) => {
  const negated = PROPERTY_OPERATORS.filter((name) => {
    const value = name.endsWith('between') ? [1, 2] : '1.2.3'
    return findOperator(name)!(value, { timezone: 'UTC', invalid: () => {} }).whenAbsent
  })

  t.same(negated, ['is_not', 'is_not_set', 'not_icontains', 'not_icontains_multi', 'not_starts_with', 'not_ends_with',
    'not_regex', 'not_between'])
})

t.test('there is no operator by the name of an inherited field', async (t) => {
  t.equal(findOperator('constructor'), null)
  t.equal(findOperator('toString'), null)
})
