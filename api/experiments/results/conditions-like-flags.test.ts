/**
 * One meaning of every operator: what flags say of a property is what rules say, and what questions and experiments say
 * in SQL of what ingest stores of it. `MILLRACE_TEST_VALUES=5000` for more values, `MILLRACE_TEST_SEED` for others.
 */
import t, { type Test } from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createRandom, pickOne, type Random } from '../../../test/support/random.ts'
import { parseJson } from '../../../engines/body/parse-json.ts'
import { stringifyJson } from '../../../engines/body/stringify-json.ts'
import { DefinitionError, HttpError } from '../../../engines/errors.ts'
import { readConditions } from '../../../engines/operators/property-conditions.ts'
import { findOperator, PROPERTY_OPERATORS } from '../../../engines/operators/property-operators.ts'
import { propertyText, SORTED_LEVELS } from '../../../engines/operators/property-test.ts'
import { dateOrVersionSql, readDateOrVersion } from '../../../engines/questions/date-version-sql.ts'
import { conditionSql, TAGS, tagOf } from '../../../engines/questions/question-sql.ts'
import { applyRules, ProjectRules } from '../../../engines/rules/apply-rules.ts'
import { compileRule } from '../../../engines/rules/compile-rule.ts'

const { client } = await createTestClickHouse(t)

const NOW = Date.UTC(2026, 5, 15, 12)

const TEXTS = [
  '', ' ', 'null', 'true', 'TRUE', 'Pro', 'pro', 'PRO plus', 'É', 'é', 'straße', 'STRASSE', 'ΟΔΟΣ', 'οδοσ', 'İ', 'ǅ', 'ﬀ', '\u212a', 'ſ', 'a\nb', 'a.b', 'a/b', 'a"b\\c', 'a\0b', '\ud800', '\u2028', '\v',
  '5', ' 5', '5\n', '\u00a05', '5.0', '+5', '5.', '.5', '1e3', '0x10', '1_000', '1e999', '-1e999', '1e-999', 'nan', 'inf', 'NaN', 'Infinity', '-0', '12 apples', '-3', '１', '9007199254740993',
  '[]', '{}', '[2,1]', '{"a":[2,1],"b":1}', '{"b":1,"a":[2,1]}', '2026-01-01', '2026-06-10T10:00:00+02:00', '-7d', '1700000000', '1.2.3', 'v2.0', '1.10.0-rc1', 'x'.repeat(16_384), 'x'.repeat(16_385)
]

/** JSON texts of values of `k`, as clients write them; null: the property is absent. */
const VALUES: (string | null)[] = [
  null, 'null', 'true', 'false', '1', '1.0', '1e0', '-0', '0', '5', '5.5', '1.1', '1e3', '1e-7', '0.000001', '0.30000000000000004', '123456789012', '9007199254740993', '-9223372036854775808',
  '18446744073709551615', '18446744073709551616', '100000000000000000000', '1e21', '1.5e300', '5e-324', '1.7976931348623157e308', '1e400',
  '{"b":1,"a":[2,1]}', '{"a":[2,1],"b":1}', '{"B":1,"a":{"d":"x/y","c":[{"f":1,"e":null}]}}', '[{"b":1,"a":2},"x"]', '{"10":1.50,"9":2.5,"a":1e21}', '{"é":1,"😀":2,"\uffff":3,"":4}', '{"__proto__":1,"a":2}',
  JSON.stringify({ 'k"/\\': 'v"/\\\n\u0001\u001f\u007f\u2028' }), '[]', '[[]]', '{}', '{"a":{},"b":[]}', '[null]', '[true]', '["TRUE"]', '[true,["True"]]', '[5]', '["5"]', '[0.1,1e-7,1e300,-0]', '["Pro","b"]',
  '["a/b\\n"]', '[18446744073709551616]', ...TEXTS.map((text) => JSON.stringify(text))
]

const VERSIONS = ['1.2.3', '1.10', 'v2.0.0-rc']

const WANTED: Record<string, unknown[]> = {
  exact: ['pro', 'é', 'STRAßE', 'οδος', 'i̇', true, 'TRUE', null, 5, '5', 5.5, '', 0, ['PRO', 'null'], [true, 5, 'a\nb'], '["pro","b"]', '{}', '[]', { b: 1, a: [2, 1] }, [{ b: 1, a: [2, 1] }, 'x'], '{"a":[2,1],"b":1}',
    '{"b":1,"a":[2,1]}', [[{ a: 2, b: 1 }, 'X']], '{"a":{"c":[{"e":null,"f":1}],"d":"x/y"},"b":1}', '{"10":1.5,"9":2.5,"a":1e21}', '1e21', '1000000000000000000000', '100000000000000000000', 1e-7, '[0.1,1e-7,1e300,0]',
    '9007199254740993', '9007199254740992', '18446744073709551616', '["18446744073709551616"]', '\ufffd', 'nan', 'infinity', '-0', '{"__proto__":1,"a":2}', [[]], [['5']]],
  icontains: ['PRO', 'É', 'null', '', '.', '5', 'A/B', '\n', '[', 'x', '"a":', ',"b"', '1}', '{"a', '\\', 'e+', ['pro', '5'], [true, 'é']],
  icontains_multi: ['pro', ['pro', '5'], ['', 'z'], ['Z', 'É'], ['},', '{']],
  starts_with: ['p', 'É', '', '[', '{"a"', '[{"a', 5, true, ['PRO'], ['tr', 5, '{"']],
  ends_with: ['O', '"]', '', 'B', 5, 'É', '1}', '2]', 'x"]', ['O'], ['o', true, '}']],
  regex: ['a.b', '(?s)a.b', '^pro$', '(?i)^pro', '^$', '\\d+', 'a$|^b', '^[A-Z]', 'É', 'x', '^.*$', 'null', '\\.', 5, '"a".*"b"', '^\\{"b"', '\\\\u001f', '\\x7f', ['^pro$'], ['a.b', '^\\d+$']],
  gt: [5, '5', -3, 0.3, '.5', '1e3', 1e300, -1e300],
  gte: [5, 5.5, '-3', 9007199254740992],
  lt: [5, 1e3, 1e300],
  lte: [5, '5.', 0],
  between: [[0, 5], ['-3', '5.5'], [5, 5], [-1e9, 1e12], [-1e308, 1e308]],
  is_date_exact: ['2026-01-01', '2026-06-10T08:00:00Z'],
  is_date_before: ['2026-06-15', '-7d', '-1m'],
  is_date_after: ['2020-01-01', '30d'],
  semver_wildcard: ['1.*', '1.2.*'],
  ...Object.fromEntries(['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'tilde', 'caret'].map((name) => [`semver_${name}`, VERSIONS]))
}

/** The negations have the values of what they negate. */
function wantedOf (operator: string): unknown[] {
  return WANTED[operator === 'is_not' ? 'exact' : operator.replace(/^not_/, '')] ?? [undefined]
}

interface Asked { operator: string, wanted: unknown, timezone?: string }

/** A value of a client, and what ingest stores of it. */
interface Sent { text: string | null, properties: Record<string, unknown>, stored: string }

function send (text: string | null): Sent {
  const properties = parseJson(text === null ? '{"other":1}' : `{"k":${text}}`, true) as Record<string, unknown>
  return { text, properties, stored: stringifyJson(properties) }
}

function askFlags (asked: Asked, values: readonly Sent[]): boolean[] {
  const context = { timezone: asked.timezone ?? 'UTC', invalid: (message: string) => { throw new Error(message) } }
  const { test, whenAbsent } = findOperator(asked.operator)!(asked.wanted, context)
  return values.map(({ properties }) => 'k' in properties ? test(properties.k, NOW) : whenAbsent)
}

/** Null: rules refuse such a value. */
function askRules (asked: Asked, values: readonly Sent[]): boolean[] | null {
  const condition = { type: 'property', key: 'k', operator: asked.operator, value: asked.wanted }
  try {
    const compiled = compileRule({ condition, actions: [{ type: 'drop' }] }, { secret: Buffer.alloc(32), projectId: 1 })
    const rules = new ProjectRules([{ id: 1, name: '', version: 1, text: '', compiled }])
    const event = { event: 'paid', distinctId: 'd', ip: '', receivedAt: NOW }
    return values.map(({ properties }) => applyRules(rules, { ...event, properties }, 'sent') !== null)
  } catch (error) {
    if (error instanceof DefinitionError) return null
    throw error
  }
}

async function askSql (asked: readonly Asked[], values: readonly Sent[]): Promise<boolean[][]> {
  const conditions = asked.map(({ operator, wanted, timezone = 'UTC' }) => {
    const dated = readDateOrVersion('where', 'k', { operator, value: wanted })
    return dated === null ? conditionSql(readConditions('where', [{ key: 'k', operator, value: wanted }])[0]!) : dateOrVersionSql(dated, { now: NOW, timezone })
  })
  const rows = await select<{ found: boolean[] }>(`[${conditions.map((sql) => `toBool(${sql})`).join(', ')}] AS found`, values)
  return asked.map((_, index) => rows.map(({ found }) => found[index] === true))
}

async function select<Row> (columns: string, values: readonly Sent[]): Promise<Row[]> {
  const query = `SELECT ${columns} FROM (SELECT arrayJoin({events:Array(String)}) AS properties)`
  const result = await client.query({ query, query_params: { events: values.map(({ stored }) => stored) }, format: 'JSONEachRow' })
  return await result.json<Row>()
}

/** In ASCII: TAP takes some characters for the end of a line. */
function show (difference: object): string {
  return JSON.stringify(difference).slice(0, 300).replace(/[^ -~]/g, (char) => `\\u{${char.charCodeAt(0).toString(16)}}`)
}

/** Conditions per query. */
const AT_ONCE = 25

async function compare (t: Test, asked: readonly Asked[], texts: readonly (string | null)[]): Promise<void> {
  const values = texts.map(send)
  const differences: string[] = []
  let refused = 0
  const check = (by: string, of: Asked, found: readonly boolean[] = []): void => {
    const expected = askFlags(of, values)
    values.forEach(({ text }, index) => {
      // A value that is a relative date changes with each request; cohorts of SQL take it for no date.
      if (by === 'SQL' && of.operator.startsWith('is_date') && /^"-?\d+[hdwmy]"$/.test(text ?? '')) return
      if (found[index] !== expected[index]) differences.push(show({ by, ...of, flags: expected[index], text }))
    })
  }
  for (const of of asked.filter(({ timezone }) => timezone === undefined)) {
    const found = askRules(of, values)
    if (found === null) refused++
    else check('rules', of, found)
  }
  for (let first = 0; first < asked.length; first += AT_ONCE) {
    const some = asked.slice(first, first + AT_ONCE)
    const found = await askSql(some, values)
    some.forEach((of, at) => check('SQL', of, found[at]))
  }
  t.same(differences.slice(0, 20), [], `${asked.length} conditions, ${values.length} values: ${differences.length} differ`)
  t.ok(refused <= asked.length / 5, `rules refuse ${refused}`)
}

t.test('an operator says the same in flags, rules, questions and experiments', async (t) => {
  const asked = PROPERTY_OPERATORS.flatMap((operator) => wantedOf(operator).map((wanted) => ({ operator, wanted })))
  await compare(t, asked, VALUES)
})

t.test('dates are read by the clock of the project, in every notation, in flags and in cohorts', async (t) => {
  const dates = [
    '2026-03-29 02:30', '2026-03-29T01:59:59.999', '2026-03-29 03:00', '2026-10-25T02:30:00', '2026-10-25 03:00:00.5', '2026-04-05 01:45', '2026-10-04 02:15', '2018-11-04 00:30', '1970-01-01',
    '2025/1/5', '2024-02-29', '2025-02-29', '2026-02-30', '2026-00-10', '2026-13-01', '2026-01-32', '2026-01-01T24:00', '2026-01-01 23:60', '9999-12-31', '1950-06-01 12:00', '2099-07-01 12:00:00.25',
    '2026-01-01T10:00Z', '2026-01-01t10:00z', '2026-01-01 10:00+0530', '2026-01-01T10:00:00 -03', '2026-01-01T10:00:00.123456+05:45', '2026-01-01T10:00+5', '2026-01-01T10',
    'Sat, 31 Jan 2026 10:00:00 GMT', '31 Jan 2026 10:00 +0100', '1 Feb 2026 10:00:00 UTC', 'Sat, 30 Feb 2026 10:00:00 GMT', '1700000000', '1700000000.5', '1700000000123', '-1', '99999999999', '100000000000', '1e9', 'today'
  ]
  const values = [...dates.map((date) => JSON.stringify(date)), '1700000000', '1.7e9', '1700000000123', '-5', '0', 'true', '["2026-01-01"]', null]
  const wanted = ['2026-03-29 02:30', '2026-10-25 02:30', '2026-01-01', '2026-01-01T10:00:00Z', '31 Jan 2026 09:00 GMT', '-1m', '-100d', '9999-12-31', '1970-01-01']
  const asked = ['Europe/Berlin', 'Australia/Lord_Howe', 'America/Sao_Paulo', 'Asia/Kolkata', 'UTC'].flatMap((timezone) => wanted.flatMap((value) =>
    ['is_date_exact', 'is_date_before', 'is_date_after'].map((operator) => ({ operator, wanted: value, timezone }))))
  await compare(t, asked, values)
})

const BREAKDOWN = { type: 'event', cohorts: [], limit: 10, order: 'people', attribution: 'first' } as const

t.test('equal values are one part of a breakdown', async (t) => {
  // Longer ones are cut.
  const values = VALUES.filter((text) => text === null || text.length < 100).map(send)
  const rows = await select<{ tag: string }>(`${tagOf({ ...BREAKDOWN, property: 'k' })} AS tag`, values)
  values.forEach(({ properties, text }, index) => {
    const expected = 'k' in properties ? `${TAGS.value}${propertyText(properties.k)}` : TAGS.notSet
    t.equal(rows[index]?.tag, expected, show({ text }))
  })
})

const COUNT = Number(process.env.MILLRACE_TEST_VALUES ?? (process.env.MILLRACE_TEST_LONG === '1' ? 3000 : 500))
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 20_261_126)

const LETTERS = [...'aBéÉßΣσςİ.5-+e "\\/٣ǅ{},[]:1', '😀', '\n', '\t', '\u001f', '\u2028', '\uffff']

function createValues (random: Random) {
  const some = <T>(most: number, make: () => T): T[] => Array.from({ length: Math.floor(random() * (most + 1)) }, make)
  const text = (): string => some(5, () => pickOne(LETTERS, random)).join('')
  const number = (): number => Number((random() * 20 - 10).toFixed(Math.floor(random() * 4)))
  const digits = (): string => `${Math.floor(random() * 1e9)}${Math.floor(random() * 1e9)}${pickOne(['', '00', '0000000'], random)}`
  const numberText = (): string => pickOne([String(number()), `${Math.floor(random() * 100)}.0`, digits(), `${number()}e${Math.floor(random() * 50 - 25)}`, String(random())], random)
  const instant = (): string => new Date(NOW + (random() * 2 - 1) * 1e10).toISOString()
  const date = (): string => instant().slice(0, pickOne([10, 16, 19, 24], random))
  const version = (): string => [1, ...some(3, () => Math.floor(random() * 12))].join('.')
  const json = (depth: number): string => pickOne([
    () => JSON.stringify(text()), numberText, () => pickOne(['true', 'false', 'null', '"true"', '"5"'], random),
    ...depth === 0 ? [] : [() => list(depth), () => object(depth)]
  ], random)()
  const list = (depth: number): string => `[${some(3, () => json(depth - 1)).join(', ')}]`
  const object = (depth: number): string => `{${some(3, () => `${JSON.stringify(pickOne([text(), 'a', 'b', 'B', '10', '9', '__proto__'], random))} : ${json(depth - 1)}`).join(',')}}`
  const value = (): string | null => pickOne<() => string | null>([
    () => json(0), numberText, () => list(3), () => object(SORTED_LEVELS + 1), () => null,
    ...[numberText, date, version, () => object(2)].map((make) => () => JSON.stringify(make()))
  ], random)()
  return { text, number, date, version, value }
}

const isEquality = (operator: string): boolean => operator === 'exact' || operator === 'is_not'

/** Whether questions refuse it: a number that lost digits, or an empty list. */
function isRefused ({ operator, wanted }: Asked): boolean {
  const items = [wanted].flat()
  const hasLostDigits = items.some((item) => Number.isInteger(item) && !Number.isSafeInteger(item))
  return isEquality(operator) && (items.length === 0 || hasLostDigits)
}

t.test('random conditions on random values, too', async (t) => {
  const random = createRandom(SEED)
  const { text, number, date, version, value } = createValues(random)
  const values = Array.from({ length: COUNT }, value)
  const known = (): unknown => send(pickOne(values, random)).properties.k ?? null
  // Texts made up by chance are in no value.
  const part = (): string => {
    const whole = [...propertyText(known())]
    const start = Math.floor(random() * whole.length)
    return whole.slice(start, start + 1 + Math.floor(random() * 5)).join('')
  }
  const wanted = (operator: string): unknown => {
    if (operator.endsWith('regex')) return pickOne([text(), part()], random).replace(/[\\+*?{}[\]]/g, '\\$&')
    if (operator.endsWith('between')) return [number(), number()].sort((a, b) => a - b)
    if (/^[gl]te?$/.test(operator)) return pickOne([number(), String(number())], random)
    if (operator.includes('date')) return pickOne([date(), '-7d', '3m', '-40h'], random)
    if (operator.startsWith('semver')) return operator.endsWith('wildcard') ? `${version().slice(0, 3)}.*` : version()
    if (isEquality(operator)) {
      const json: unknown = JSON.parse(stringifyJson(known()))
      return pickOne([propertyText(known()), [propertyText(known()), text()], number(), json, [json, text()]], random)
    }
    return pickOne([part(), part(), number(), [text(), part()]], random)
  }
  const asked = Array.from({ length: 300 }, () => pickOne(PROPERTY_OPERATORS, random))
    .map((operator) => ({ operator, wanted: wanted(operator) }))

  await compare(t, asked.filter((each) => !isRefused(each)), values)
})

t.test('values that an operator cannot have are refused by the name of the field', async (t) => {
  const wrong: Array<[string, unknown]> = [
    ['gt', 'many'], ['gt', ''], ['gt', '0x10'], ['gt', [1, 2]], ['lte', true], ['between', 5], ['between', [5]], ['between', [5, 1]],
    ['not_between', ['a', 'b']], ['regex', '('], ['regex', ['a', '(']], ['not_regex', '(?=a)'], ['exact', []],
    ['icontains', {}], ['icontains', [['a']]], ['exact', 2 ** 53], ['is_not', [1, -1e17]], ['icontains', undefined]
  ]
  for (const [operator, value] of wrong) {
    let attr
    try {
      readConditions('where', [{ key: 'k', operator, value }])
    } catch (error) {
      attr = error instanceof HttpError ? error.attr : error
    }
    t.equal(attr, 'where__0__value', `${operator} ${JSON.stringify(value)}`)
  }
  t.same(readConditions('where', [{ key: 'k', value: '9007199254740993' }])[0]?.values, ['9007199254740993'])
  t.throws(() => readConditions('where', [{ key: 'k', operator: 'semver_gt', value: '1.0' }]), HttpError)
  t.same(readConditions('where', [{ key: 'k', operator: 'gt', value: [5] }])[0]?.values, ['5'], 'a list of one is its value')
})
