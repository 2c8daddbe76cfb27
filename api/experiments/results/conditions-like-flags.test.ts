/** The operators of feature flags are the oracle: SQL must say of random values what they say. */
import t, { type Test } from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { createRandom, pickOne } from '../../../test/support/random.ts'
import { findOperator } from '../../../engines/operators/property-operators.ts'
import { HttpError } from '../../../engines/errors.ts'
import { readConditions } from '../../../engines/operators/property-conditions.ts'
import { conditionSql } from '../../../engines/questions/question-sql.ts'
import { loadQuery } from './query-metric.ts'

const { client } = await createTestClickHouse(t)

const ABSENT = Symbol('absent')

const VALUES: unknown[] = [
  ABSENT, null, true, false, '', ' ', 'null', 'true', 'TRUE', 'Pro', 'pro', 'PRO plus', 'É', 'é', 'straße', 'STRASSE', 'ΟΔΟΣ', 'οδοσ', 'İ',
  'a\nb', 'a.b', 'a/b', 'a"b\\c', '5', ' 5', '5.0', '+5', '5.', '.5', '1e3', '0x10', '1_000', 'nan', 'inf', '12 apples', '-3', '１',
  0, -0, 5, 5.5, 1.1, 1000, -3, 1e-7, 123456789012, 0.30000000000000004, [], [5], ['Pro', 'b'], ['a/b\n'], {}, { tier: 'Pro' },
  'x'.repeat(16_384), 'x'.repeat(16_385)
]

const WANTED: Record<string, unknown[]> = {
  exact: ['pro', 'é', 'STRAßE', 'οδος', 'i̇', true, 'TRUE', null, 5, '5', 5.5, '', 0, ['PRO', 'null'], [true, 5, 'a\nb'], '["pro","b"]', '{}'],
  icontains: ['PRO', 'É', 'null', '', '.', '5', 'A/B', '\n', '[', 'x', ['pro', '5'], [true, 'é']],
  icontains_multi: ['pro', ['pro', '5'], ['', 'z'], ['Z', 'É']],
  starts_with: ['p', 'É', '', '[', 5, true], ends_with: ['O', '"]', '', 'B', 5, 'É'],
  regex: ['a.b', '(?s)a.b', '^pro$', '(?i)^pro', '^$', '\\d+', 'a$|^b', '^[A-Z]', 'É', 'x', '^.*$', 'null', '\\.', 5],
  gt: [5, '5', -3, 0.3, '.5', '1e3'], gte: [5, 5.5, '-3'], lt: [5, 1e3], lte: [5, '5.', 0],
  between: [[0, 5], ['-3', '5.5'], [5, 5], [-1e9, 1e12]]
}

/** The negations have the values of what they negate. */
const NEGATED: Record<string, string> = {
  is_not: 'exact', not_icontains: 'icontains', not_icontains_multi: 'icontains_multi', not_starts_with: 'starts_with',
  not_ends_with: 'ends_with', not_regex: 'regex', not_between: 'between'
}

const OPERATORS = [...Object.keys(WANTED), ...Object.keys(NEGATED), 'is_set', 'is_not_set']

interface Case { operator: string, wanted: unknown, value: unknown }

/** What a flag says; several values of `icontains` are those of the operator for several. */
function askFlags ({ operator, wanted, value }: Case): boolean {
  const name = Array.isArray(wanted) && operator.endsWith('icontains') ? `${operator}_multi` : operator
  const { test, whenAbsent } = findOperator(name)!(wanted, { timezone: 'UTC', invalid: (message) => { throw new Error(message) } })
  return value === ABSENT ? whenAbsent : test(value, 0)
}

/** So many conditions are the steps of one query. */
const STEPS = 30

/** What the query of experiments and those of questions say of the values, for each condition. */
async function askSql (asked: ReadonlyArray<Omit<Case, 'value'>>, values: readonly unknown[]): Promise<boolean[][]> {
  const conditions = asked.map(({ operator, wanted }) => readConditions('where', [{ key: 'k', operator, value: wanted }])[0]!)
  const result = await client.query({
    query: `SELECT ${loadQuery('step-mask').replace(/^(?:--[^\n]*\n)+/, '')} AS steps, 'paid' AS event, [${conditions.map(conditionSql).join(', ')}] AS compiled
      FROM (SELECT arrayJoin({events:Array(String)}) AS properties)`,
    query_params: {
      events: values.map((value) => JSON.stringify(value === ABSENT ? { other: 1 } : { k: value })),
      step_events: asked.map(() => ''),
      filter_steps: asked.map((_, index) => index + 1),
      filter_keys: asked.map(() => 'k'),
      filter_operators: conditions.map(({ operator }) => operator),
      filter_values: conditions.map((condition) => condition.values),
      filter_patterns: conditions.map(({ operator, values: [pattern = ''] }) => operator.endsWith('regex') ? pattern : '')
    },
    format: 'JSONEachRow'
  })
  const rows = await result.json<{ steps: number, compiled: (number | boolean)[] }>()
  return asked.map((_, index) => rows.map(({ steps, compiled }) => {
    const isMet = (Number(steps) >>> index & 1) === 1
    if (Boolean(compiled[index]) !== isMet) throw new Error(`a question says otherwise: ${show(conditions[index]!)}`)
    return isMet
  }))
}

/** In ASCII: TAP takes some characters for the end of a line. */
function show (difference: object): string {
  return JSON.stringify(difference).replace(/[^ -~]/g, (char) => `\\u{${char.charCodeAt(0).toString(16)}}`)
}

async function compare (t: Test, asked: ReadonlyArray<Omit<Case, 'value'>>, values: readonly unknown[]): Promise<void> {
  const differences: string[] = []
  for (let first = 0; first < asked.length; first += STEPS) {
    const some = asked.slice(first, first + STEPS)
    const found = await askSql(some, values)
    some.forEach(({ operator, wanted }, at) => values.forEach((value, index) => {
      const expected = askFlags({ operator, wanted, value })
      if (found[at]?.[index] !== expected) differences.push(show({ operator, wanted, value, expected }))
    }))
  }
  t.same(differences.slice(0, 20), [], `${asked.length * values.length} comparisons`)
}

t.test('an operator means in the conditions of experiments what it means in flags', async (t) => {
  await compare(t, OPERATORS.flatMap((operator) =>
    (WANTED[NEGATED[operator] ?? operator] ?? [undefined]).map((wanted) => ({ operator, wanted }))), VALUES)
})

t.test('random texts and numbers, too', async (t) => {
  const random = createRandom(20_261_126)
  const letters = ['a', 'B', 'é', 'É', 'ß', 'Σ', 'σ', 'ς', 'İ', '😀', '\n', '.', '5', '-', '+', 'e', ' ', '"', '\\', '/', '٣', 'ǅ', '\t']
  const text = (): string => Array.from({ length: Math.floor(random() * 6) }, () => pickOne(letters, random)).join('')
  const number = (): number => Number((random() * 20 - 10).toFixed(Math.floor(random() * 4)))
  const wanted = (operator: string): unknown => {
    if (operator === 'regex') return text().replace(/[\\+]/g, '\\$&')
    if (operator === 'between') return [number(), number()].sort((a, b) => a - b)
    if (/^[gl]te?$/.test(operator)) return pickOne([number(), String(number())], random)
    return pickOne([text(), number(), ...operator.endsWith('with') ? [] : [[text(), text()]]], random)
  }
  const values = Array.from({ length: 1000 }, () => random() < 0.6
    ? text()
    : pickOne([number(), number(), String(number()), null, true, ABSENT, [text()], { [text()]: number() }], random))

  await compare(t, Array.from({ length: 300 }, () => pickOne(OPERATORS, random))
    .map((operator) => ({ operator, wanted: wanted(NEGATED[operator] ?? operator) })), values)
})

t.test('values that an operator cannot have are refused by the name of the field', async (t) => {
  const wrong: Array<[string, unknown]> = [
    ['gt', 'many'], ['gt', ''], ['gt', '0x10'], ['gt', [1, 2]], ['lte', true], ['between', 5], ['between', [5]], ['between', [5, 1]],
    ['not_between', ['a', 'b']], ['regex', '('], ['regex', ['a', 'b']], ['not_regex', '(?=a)'], ['starts_with', ['a', 'b']], ['exact', []],
    ['exact', {}], ['exact', [['a']]], ['exact', 2 ** 53], ['is_not', [1, -1e17]], ['icontains', undefined]
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
