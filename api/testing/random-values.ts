/** Values of properties of every type, and filters of every operator, close enough to decide either way. */
import { PROPERTY_OPERATORS } from '../../engines/operators/property-operators.ts'
import { pickOne, type Random } from '../../test/support/random.ts'
import type { RandomProperty } from './random-flags.ts'

type Build = (random: Random) => unknown

const oneOf = (...values: unknown[]): Build => (random) => pickOne(values, random)

const TEXTS = [
  'free', 'Pro', 'team', 'ENTERPRISE', 'ann@example.com', 'BOB@Example.org', 'eve@test.io', 'x', '', ' ', 'É', 'straße', 'a,b',
  'a\nb', 'a\vb', 'true', 'False', 'null', '12 apples', 'many', 'foo 1', 'NaN', 'Infinity', '0x10', ' 5', '5 ', '1e3', '1e999',
  '+7', '.5', '18', '99.5', '007'
]
const NUMBERS = [0, 1, 17.5, 42, -3, 1e-7, 5e-324, 1_700_000_000, 1_700_000_000.5, 1_700_000_000_000, 2 ** 53]
const HUGE = [1e21, 1.5e300, Number.MAX_VALUE, -1e21, 1e15]
const VERSIONS = [
  '1.2.3', 'v2.0.0', '1.10', '2.0.0-beta', '3.08.1', '0.2.9', '0.0.4', 'abc', '1.2.3.4', '2.5.0+7', '1..2', '.1', 'V1'
]
const COMPOSITES = [
  [], ['free', 'pro'], ['Pro'], [5], [5.5], ['18'], [true], ['TRUE'], [[]], {}, { tier: 'pro' }, { b: 1.5, a: ['x'] },
  { a: ['x'], b: 1.5 }, { b: 2, a: 1 }
]

const HOUR_MS = 3_600_000

/** How long ago what filters ask for may be, in hours; `1m` and `1y` are near some of them. */
const AGES = [0, 1, 24, 7 * 24, 30 * 24, 31 * 24, 365 * 24, 500 * 24]

/** A date near one that filters ask for, in one of the forms that clients send. */
function buildDate (random: Random): unknown {
  const instant = Date.now() - (pickOne(AGES, random) + random() * 52 - 26) * HOUR_MS
  const iso = new Date(instant).toISOString()
  const offset = pickOne([-570, -60, 0, 120, 345, 840], random)
  const there = new Date(instant + offset * 60_000).toISOString().slice(0, 19)
  const hours = new Date(Math.abs(offset) * 60_000).toISOString().slice(11, 16)
  return pickOne([
    iso, iso, iso.slice(0, 19) + 'Z', iso.slice(0, 16) + 'Z', iso.slice(0, 10), iso.slice(0, 16), iso.slice(0, 19),
    iso.slice(0, 19).replace('T', ' '), iso.replace('Z', '57Z'), iso.replace('T', ' '),
    `${there}${offset < 0 ? '-' : '+'}${hours}`, iso.slice(0, 10).replaceAll('-', '/'), new Date(instant).toUTCString(),
    Math.floor(instant / 1000), instant / 1000, String(Math.floor(instant / 1000)), Math.floor(instant),
    `${iso.slice(0, 4)}-02-30T00:00:00Z`, `${iso.slice(0, 4)}-02-29`, `${iso.slice(0, 4)}-2-3`, '-7d', 'soon'
  ], random)
}

/** A value of any type but a list or an object. */
function buildScalar (random: Random): unknown {
  const builds = [oneOf(...TEXTS), oneOf(...NUMBERS), oneOf(...VERSIONS), buildDate, oneOf(true, false, null)]
  return pickOne(builds, random)(random)
}

function buildAny (random: Random): unknown {
  return random() < 0.4 ? pickOne([...COMPOSITES, ...HUGE], random) : buildScalar(random)
}

const part = oneOf('PRO', 'e', '@EXAMPLE', 'null', '5', ',', 'É', '', 17, 1e21, true, '.com', ['a', 'b'])
const pattern = oneOf(
  '^[a-z]+@example', '@(example|test)\\.(com|io)$', '[A-Z]{3}', '\\d+', '^x?$', '^\\w+@', '\\s', '^\\S+$', 'É', '(?i)pro',
  '\\bpro', '^\\d{2}$', 'a|^$', '.', '^[^@]*$', 'e\\+', ''
)
const bound = oneOf(17, '18', 0, -3, 99.5, '1e3', 1e300, '.5')
const pair = oneOf([1, 20], ['-3', '99.5'], [0, 1e12])

function day (random: Random): string {
  if (random() < 0.5) return pickOne(['-7d', '24h', '-1h', '-1m', '1y', '-2w', '30d', '500d'], random)
  const iso = new Date(Date.now() - pickOne(AGES, random) * HOUR_MS).toISOString()
  return iso.slice(0, pickOne([10, 10, 16, 19, 24], random))
}

const version = oneOf('1.2.3', '2.0', '1.2', 'v2', '2.0.0-rc', '0.2.1', '0.0.4', '1.10.0', '3.08', 2)

/** The values of each operator. */
const WANTED: Record<string, Build> = {
  exact: (random) => random() < 0.5
    ? buildAny(random)
    : pickOne<unknown>([['Free', 'team'], ['pro', 5, null], 'TRUE', [], ['true', false], 5.5], random),
  icontains: part,
  icontains_multi: oneOf(['ann', 'PRO'], 'x', ['null']),
  starts_with: part,
  ends_with: part,
  regex: pattern,
  between: pair,
  gt: bound,
  gte: bound,
  lt: bound,
  lte: bound,
  is_set: oneOf(null),
  is_not_set: oneOf(null),
  is_date_before: day,
  is_date_after: day,
  is_date_exact: day,
  semver_wildcard: oneOf('1.*', '1.2.*', '2.*', '*', '3.08.*'),
  ...Object.fromEntries(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'tilde', 'caret'].map((name) => [`semver_${name}`, version]))
}

const EQUALITIES = ['exact', 'is_not', 'is_set', 'is_not_set']
const TEXT_OPERATORS = PROPERTY_OPERATORS.filter((name) => /icontains|_with$|regex$/.test(name))
const NUMBER_OPERATORS = ['gt', 'gte', 'lt', 'lte', 'between', 'not_between']
const DATE_OPERATORS = ['is_date_before', 'is_date_after', 'is_date_exact']

function property (key: string, build: Build, operators: readonly string[]): RandomProperty {
  return {
    key,
    value: build,
    filter (random) {
      const operator = pickOne(operators, random)
      return { operator, value: WANTED[operator === 'is_not' ? 'exact' : operator.replace(/^not_/, '')]!(random) }
    }
  }
}

/**
 * Every operator, asked of values of every type. Lists, objects and numbers from 1e21 on are only where SDKs compare
 * them as the server does: to operators on texts they are what JavaScript makes of them.
 */
export const EVERY_PROPERTY: readonly RandomProperty[] = [
  property('any', buildAny, [...EQUALITIES, ...DATE_OPERATORS]),
  property('scalar', buildScalar, PROPERTY_OPERATORS),
  property('email', oneOf(...TEXTS), [...EQUALITIES, ...TEXT_OPERATORS]),
  property('plan', oneOf('free', 'Pro', 'team', 5, 5.5, true, null), EQUALITIES),
  property('number', oneOf(...NUMBERS, ...HUGE, ...HUGE.map(String)),
    [...EQUALITIES, ...NUMBER_OPERATORS, ...DATE_OPERATORS]),
  property('age', oneOf(0, 17, 17.5, 42, '18', '99.5', '12 apples', 'many', null), NUMBER_OPERATORS),
  property('joined', buildDate, DATE_OPERATORS),
  property('version', oneOf(...VERSIONS), PROPERTY_OPERATORS.filter((name) => name.startsWith('semver')))
]
