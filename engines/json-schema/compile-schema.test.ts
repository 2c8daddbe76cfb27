import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import t from 'tap'
import { DefinitionError } from '../errors.ts'
import { stringifyJson } from '../body/stringify-json.ts'
import { parseJson } from '../body/parse-json.ts'
import { OBJECT_KEYWORDS } from './compile-object.ts'
import { compileSchema } from './compile-schema.ts'
import { VALUE_KEYWORDS } from './compile-value.ts'
import { SCHEMA_LIMITS } from './schema-place.ts'
import { randomProperties, randomSchema } from './testing/random-schemas.ts'

/** The first place that is refused, and why. */
function refusalOf (schema: unknown): string {
  try {
    compileSchema(schema)
    return ''
  } catch (error) {
    if (!(error instanceof DefinitionError)) throw error
    return `${error.path.join('/')}: ${error.message}`
  }
}

/** Schemas that are tried; `npm run test:long` for the larger number. Ajv compiles a schema in milliseconds. */
const SCHEMAS = process.env.MILLRACE_TEST_LONG === '1' ? 2000 : 300

t.test('says the same as Ajv of any schema and any properties', async (t) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allowUnionTypes: true })
  let met = 0
  fc.assert(fc.property(randomSchema, fc.array(randomProperties, { minLength: 5, maxLength: 5 }), (schema, several) => {
    const validate = ajv.compile(schema)
    const { check, failuresOf } = compileSchema(schema)
    for (const properties of several) {
      const failure = check(properties, 'sent')
      if (validate(properties) !== (failure === null)) throw new Error(`${JSON.stringify(schema)} ${JSON.stringify(properties)}`)
      if ((failuresOf(properties, 'sent').length === 0) !== (failure === null)) throw new Error('failuresOf and check differ')
      if (failure === null) met++
    }
  }), { numRuns: SCHEMAS })
  t.ok(met > SCHEMAS / 10 && met < 4.9 * SCHEMAS, `${met} of ${5 * SCHEMAS} meet their schema`)
})

t.test('says the same of an event as it came and as it is stored', async (t) => {
  const text = fc.json({ maxDepth: 3 })
  const odd = fc.constantFrom('{"a":123456789012345678901234567890}', '{"a":18446744073709551615}', '{"a":-9223372036854775809}',
    '{"a":1e20,"b":-0}', '{"a":[1e400,12345678901234567]}', '{"__proto__":{"a":1},"b":"x"}')
  fc.assert(fc.property(randomSchema, fc.oneof(text.map((value) => `{"a":${value},"b":${value}}`), odd), (schema, sent) => {
    const { check } = compileSchema(schema)
    const properties = parseJson(sent, true) as Record<string, unknown>
    const stored = JSON.parse(stringifyJson(properties)) as Record<string, unknown>
    const [before, after] = [check(properties, 'sent'), check(stored, 'stored')]
    if (before?.path !== after?.path || before?.keyword !== after?.keyword) throw new Error(`${JSON.stringify(schema)} ${sent}`)
  }), { numRuns: SCHEMAS })
  t.pass()
})

t.test('multiples of a decimal are counted as decimals', async (t) => {
  const { check } = compileSchema({ properties: { price: { multipleOf: 0.01 }, seats: { multipleOf: 3 } } })
  const refused = Array.from({ length: 10_000 }, (_, cents) => cents / 100).filter((price) => check({ price }, 'sent') !== null)
  t.same(refused, [])
  for (const price of [19.995, 0.001, 1e-9, 4.3500001]) t.match(check({ price }, 'sent'), { path: '/price', keyword: 'multipleOf' }, `${price}`)
  t.equal(check({ seats: 9_007_199_254_740_990 }, 'sent'), null)
  for (const seats of [1e17, 9_007_199_254_740_991, 2.9999999999999996]) t.match(check({ seats }, 'sent'), { path: '/seats' }, `${seats}`)
})

t.test('names the property, the keyword and the value at fault', async (t) => {
  const { check, failuresOf } = compileSchema({
    required: ['plan'],
    properties: {
      plan: { enum: ['free', 'pro'] }, 'a/b~c': { type: 'string' }, items: { items: { required: ['price'], properties: { price: { minimum: 0 } } } }
    },
    patternProperties: { '^\\$': {} },
    additionalProperties: false
  })

  t.same(check({}, 'sent'), { path: '/plan', keyword: 'required', value: undefined })
  t.same(check({ plan: 'gold' }, 'sent'), { path: '/plan', keyword: 'enum', value: 'gold' })
  t.same(check({ plan: 'pro', 'a/b~c': 1 }, 'sent'), { path: '/a~1b~0c', keyword: 'type', value: 1 })
  t.same(check({ plan: 'pro', items: [{ price: 1 }, { price: -1 }] }, 'sent'), { path: '/items/1/price', keyword: 'minimum', value: -1 })
  t.same(check({ plan: 'pro', items: [{}] }, 'sent'), { path: '/items/0/price', keyword: 'required', value: undefined })
  t.same(check({ plan: 'pro', other: 1 }, 'sent'), { path: '/other', keyword: 'additionalProperties', value: 1 })
  t.equal(check({ plan: 'pro', $lib: 'web' }, 'sent'), null)
  t.same(failuresOf({ items: [{}], other: 1 }, 'sent').map(({ path }) => path), ['/plan', '/items/0/price', '/other'])
})

t.test('inherited names are no properties', async (t) => {
  t.match(compileSchema({ required: ['constructor', 'toString'] }).check({}, 'sent'), { path: '/constructor', keyword: 'required' })
  t.equal(compileSchema({ properties: { valueOf: { type: 'string' } } }).check({}, 'sent'), null)
})

t.test('formats and lengths', async (t) => {
  const cases: [schema: object, good: unknown[], bad: unknown[]][] = [
    [{ format: 'date-time' }, ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.123+02:00', 1], ['2026-01-31', '2026-13-01T12:00:00Z', 'now']],
    [{ format: 'date' }, ['2026-01-31'], ['2026-1-31', '2026-01-32']],
    [{ format: 'uuid' }, ['0195c5d4-1f2e-7abc-8def-0123456789ab'], ['0195c5d4']],
    [{ format: 'email' }, ['a@example.com'], ['a', 'a@b@c', `${'a'.repeat(10_000)}@example.com`]],
    [{ format: 'uri' }, ['https://example.com/?a=b', 'mailto:a@example.com'], ['example', '/path', 'https://a b']],
    [{ minLength: 2, maxLength: 2 }, ['ab', '😀😀', 'a😀'], ['a', '😀', 'abc', '😀😀😀']],
    [{ pattern: '^[A-Z]{2}\\d+$' }, ['AB1', 5], ['ab1', 'AB']],
    [{ pattern: '^\\$' }, ['$lib'], ['lib']]
  ]
  for (const [schema, good, bad] of cases) {
    const { check } = compileSchema({ properties: { a: schema } })
    for (const value of good) t.equal(check({ a: value }, 'sent'), null, `${JSON.stringify(schema)} ${value}`)
    for (const value of bad) t.not(check({ a: value }, 'sent'), null, `${JSON.stringify(schema)} ${value}`)
  }
})

t.test('a date is a day that there is', async (t) => {
  const { check } = compileSchema({ properties: { date: { format: 'date' }, time: { format: 'date-time' } } })
  const isMet = (date: string): boolean => check({ date }, 'sent') === null
  const wrong: string[] = []
  const two = (number: number): string => String(number).padStart(2, '0')
  for (const year of [0, 4, 100, 400, 1896, 1900, 1999, 2000, 2023, 2024, 2100, 9996, 9999]) {
    for (let month = 0; month <= 13; month++) {
      for (let day = 0; day <= 32; day++) {
        const date = `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`
        const time = Date.parse(`${date}T00:00:00Z`)
        // The engine takes 31 February for a day of March.
        const isDay = !Number.isNaN(time) && new Date(time).toISOString().slice(0, 10) === date
        if (isMet(date) !== isDay || (check({ time: `${date}T10:00:00Z` }, 'sent') === null) !== isDay) wrong.push(date)
      }
    }
  }
  t.same(wrong, [])
  const isTime = (time: string): boolean => check({ time: `2016-12-31${time}` }, 'sent') === null
  t.same(['T23:59:60Z', 't15:59:60-08:00', 'T05:29:60+05:30', 'T00:00:00.5z'].filter(isTime).length, 4)
  t.same(['T12:30:60Z', 'T24:00:00Z', 'T12:00:61Z', ' 12:00:00Z', 'T12:00:00', 'T12:00:00+24:00'].filter(isTime), [])
})

t.test('refuses what cannot be enforced, and names the place', async (t) => {
  const deep = (levels: number): object => levels === 0 ? {} : { properties: { a: deep(levels - 1) } }
  const doubled = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`d${n}`, n === 29 ? {} : { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] }]))
  const cases: [schema: unknown, refusal: RegExp][] = [
    ['text', /^: A schema is an object/],
    [[], /^: A schema is an object/],
    [{ type: 'array' }, /^type: /],
    [{ unevaluatedProperties: false }, /^unevaluatedProperties: This keyword is not supported/],
    [{ $id: 'https://example.com' }, /^\$id: /],
    [{ $schema: 'http://json-schema.org/draft-07/schema#' }, /^\$schema: /],
    [{ properties: { a: { type: 'text' } } }, /^properties\/a\/type: /],
    [{ properties: { a: { minimum: '1' } } }, /^properties\/a\/minimum: /],
    [{ properties: { a: { minimum: Infinity } } }, /^properties\/a\/minimum: This number is too large/],
    [{ properties: { a: { const: -Infinity } } }, /^properties\/a\/const: This number is too large/],
    [{ properties: { a: { enum: [1, JSON.parse('1e400')] } } }, /^properties\/a\/enum\/1: This number is too large/],
    [{ properties: { a: { default: [Infinity] } } }, /^properties\/a\/default\/0: This number is too large/],
    [{ properties: { a: { enum: [] } } }, /^properties\/a\/enum: /],
    [{ properties: { a: { enum: [{}] } } }, /^properties\/a\/enum: /],
    [{ properties: { a: { format: 'phone' } } }, /^properties\/a\/format: /],
    [{ properties: { a: { pattern: '(a' } } }, /^properties\/a\/pattern: /],
    [{ properties: { a: { pattern: '(?=a)b' } } }, /^properties\/a\/pattern: /],
    [{ properties: { a: { pattern: `${'(a?)'.repeat(40)}{999}` } } }, /^properties\/a\/pattern: /],
    [{ properties: { a: { pattern: '((((a{1,99}){1,99}){1,99}){1,99})' } } }, /^properties\/a\/pattern: /],
    [{ properties: { a: { pattern: 'a'.repeat(501) } } }, /^properties\/a\/pattern: /],
    [{ properties: Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`p${n}`, { pattern: '[a-z]+$' }])) }, /^properties\/p\d+\/pattern: All patterns together/],
    [{ properties: { a: { pattern: `(?i)${'[\\x{1}-\\x{10000}]'.repeat(25)}` } } }, /^properties\/a\/pattern: All patterns together/],
    [{ properties: Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`p${n}`, { pattern: `(?s-i)(?si:[Ā-\u{1d7ff}]${n})` }])) }, /^properties\/p\d+\/pattern: All patterns together/],
    [{ $defs: { a: { pattern: '(a?b){200}' } }, allOf: Array(900).fill({ $ref: '#/$defs/a' }) }, /^allOf\/\d+\/\$ref\/pattern: All patterns together/],
    [JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'), /^properties\/__proto__: /],
    [{ required: ['__proto__'] }, /^required\/0: /],
    [{ required: 'a' }, /^required: /],
    [{ properties: [] }, /^properties: /],
    [{ properties: null }, /^properties: Expected an object/],
    [{ required: null }, /^required: Expected a list/],
    [{ patternProperties: null }, /^patternProperties: Expected an object/],
    [{ properties: { a: { properties: null } } }, /^properties\/a\/properties: /],
    [{ properties: { a: { items: { required: null } } } }, /^properties\/a\/items\/required: /],
    [{ $defs: { a: { patternProperties: null } } }, /^\$defs\/a\/patternProperties: /],
    [{ then: {} }, /^: then and else need an if/],
    [{ $ref: 'https://example.com/schema' }, /^\$ref: /],
    [{ $ref: '#/properties/a' }, /^\$ref: /],
    [{ $defs: { a: { properties: { a: { $ref: '#/$defs/a' } } } }, $ref: '#/$defs/a' }, /refers to itself/],
    [{ $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }, /refers to itself/],
    [{ $defs: doubled, $ref: '#/$defs/d0' }, /at most (1000 subschemas|32 levels)/],
    [deep(SCHEMA_LIMITS.depth / 2 + 1), /^(properties\/a\/?){17}: A schema has at most 32 levels/],
    [JSON.parse(`${'{"not":'.repeat(33)}{}${'}'.repeat(33)}`), /at most 32 levels/],
    [JSON.parse(`${'{"not":'.repeat(8000)}{}${'}'.repeat(8000)}`), /at most 32 levels/],
    [{ description: 'x'.repeat(SCHEMA_LIMITS.bytes) }, /at most 65536 bytes/],
    [{ allOf: Array.from({ length: 1001 }, () => true) }, /at most 1000 subschemas/],
    [{ properties: { ['n'.repeat(201)]: true } }, /200 characters/],
    [{ properties: { '': true } }, /1 to 200 characters/],
    [{ required: [''] }, /1 to 200 characters/]
  ]
  for (const [schema, refusal] of cases) t.match(refusalOf(schema), refusal)
  for (const schema of [
    deep(SCHEMA_LIMITS.depth / 2), JSON.parse(`${'{"not":'.repeat(32)}{}${'}'.repeat(32)}`), { properties: { ['n'.repeat(200)]: true } }
  ]) t.equal(refusalOf(schema), '')
})

t.test('null is the value of no keyword but const, at any level', async (t) => {
  const keywords = [
    ...OBJECT_KEYWORDS, ...Object.keys(VALUE_KEYWORDS), 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', '$ref', '$defs', '$schema'
  ].filter((keyword) => keyword !== 'const')
  for (const keyword of keywords) {
    t.match(refusalOf({ [keyword]: null }), `${keyword}: `, keyword)
    t.match(refusalOf({ properties: { a: { items: { [keyword]: null } } } }), `properties/a/items/${keyword}: `, keyword)
  }
})

t.test('an event that would take too many steps does not meet its schema', async (t) => {
  const { check } = compileSchema({ properties: { a: { items: { anyOf: Array.from({ length: 100 }, (_, n) => ({ const: n })) } }, t: { pattern: '(.*a){50}b' } } })

  t.match(check({ a: ['x'] }, 'sent'), { path: '/a/0', keyword: 'anyOf' })
  t.match(check({ a: Array.from({ length: 300_000 }, () => 5) }, 'sent'), { path: '', keyword: 'limit' })
  t.match(check({ t: 'a'.repeat(100_000) }, 'sent'), { path: '', keyword: 'limit' })
  t.equal(check({ a: [1, 2] }, 'sent'), null, 'the next event has all its steps')
})

t.test('what schemas say alike of a property is shared, and nothing else', async (t) => {
  const plan = (type: string, more: object = {}): object => ({ properties: { plan: { type, ...more } } })
  const defined = (type: string): object => ({ $defs: { plan: { type } }, properties: { plan: { $ref: '#/$defs/plan' } } })
  const meets = (schema: object, properties: object): boolean => compileSchema(schema).check({ ...properties }, 'sent') === null

  t.same([meets(plan('string'), { plan: 'pro' }), meets(plan('number'), { plan: 'pro' })], [true, false])
  t.same([meets(plan('string'), {}), meets({ ...plan('string'), required: ['plan'] }, {})], [true, false])
  t.same([meets({ properties: { other: { type: 'string' } } }, { plan: 1 }), meets(plan('string'), { other: 1 })], [true, true])
  t.same([meets(defined('string'), { plan: 'pro' }), meets(defined('number'), { plan: 'pro' })], [true, false],
    'a reference means what its own schema defines')
})
