import fc from 'fast-check'
import t from 'tap'
import { PROPERTY_TYPE_CODES } from '../../../schema/wire/event-row.ts'
import { createTestClickHouse, type TestClickHouse } from '../../../test/support/test-stores.ts'
import { inferType, nameRuleOf } from '../../../platform/infer-property-type.ts'
import { type CompiledSchema, compileSchema } from '../../../engines/json-schema/compile-schema.ts'
import { FORMAT_NAMES, isPortable } from '../../../engines/json-schema/compile-text.ts'
import { HOSTILE_BOUNDS, HOSTILE_TEXTS, HOSTILE_VALUES } from '../../../engines/json-schema/testing/hostile-values.ts'
import { isGivenUp } from './read-stored-events.ts'
import { valueClassesOf } from './value-classes.ts'
import { needsOf } from './value-needs.ts'

/** As a script, more: `MILLRACE_TEST_PATTERNS=5000 npx node api/enforcement/schemas/value-classes.test.ts`. */
const PATTERNS = Number(process.env.MILLRACE_TEST_PATTERNS ?? 60)

const NOW = Date.UTC(2026, 10, 21)

/** JSON of properties as it is stored, of which each has a property `v`. */
const AROUND: readonly ((value: string) => string)[] = [
  (value) => `{"v":${value}}`,
  (value) => `{"a":"v","v":${value},"z":[1,"}"]}`,
  (value) => `{"v":${value},"o":{"v":1}}`
]

/** Patterns that are asked of SQL. */
const PATTERN_LIST = [
  '^a', 'b$', '^[ab]{1,2}$', 'c', '', '^$', '.', '^.$', '^..$', '\\d', '^\\d+$', '\\D', '\\w', '^\\W$', '\\s',
  '^\\S+$', '\\ba\\b', '\\B', 'a|b', '^(?:a|bc)*$', '^[^a]', '\\$', '\\^',
  '\\.', '\\[', '\\\\', '"', "'", '^\\$', '[A-Z]', '^[0-9A-F]{8,16}$', 'x{20}', '^x{1,20}$', '@', '-', '_', '^_',
  '^[a-z]+@', '[^ -~]', '^[\\w.-]+$', 'a{0}', '(|a)b'
]

interface Stored {
  properties: string
  types: string
}

function store (values: readonly string[]): Stored[] {
  return values.flatMap((value) => AROUND.map((around): Stored => {
    const type = inferType(nameRuleOf('v'), JSON.parse(value), () => NOW)
    return { properties: around(value), types: `eSa\0e${PROPERTY_TYPE_CODES[type]}v\0e?z` }
  }))
}

async function insert ({ client }: TestClickHouse, event: string, stored: readonly Stored[]): Promise<void> {
  const values = stored.map(({ properties, types }, index) => ({
    project_id: 1, uuid: uuidOf(index), event, distinct_id: 'd', timestamp: new Date(NOW - index).toISOString().slice(0, 23), properties, property_types: types
  }))
  await client.insert({ table: 'events', format: 'JSONEachRow', values })
}

function uuidOf (index: number): string {
  return `01900000-0000-7000-8000-${String(index).padStart(12, '0')}`
}

interface Class {
  members: string[]
  sure: number
}

/** What SQL takes for the same. */
async function readClasses (
  { client }: TestClickHouse, event: string, compiled: CompiledSchema, areOpen?: boolean[]
): Promise<Class[]> {
  const classes = valueClassesOf(needsOf(compiled.schema), compiled.maxBytes, areOpen)
  if (classes === null) throw new Error('no classes')
  const { definitions, keys, isSure } = classes
  const result = await client.query({
    query: `WITH ${definitions.join(', ')}
      SELECT groupArray(toString(uuid)) AS members, toUInt32(countIf(${isSure})) AS sure
      FROM events WHERE event = {event: String} GROUP BY ${keys.join(', ')}`,
    query_params: { event },
    format: 'JSONEachRow',
    clickhouse_settings: { short_circuit_function_evaluation: 'disable' }
  })
  return await result.json<Class>()
}

/** What ingest says of a stored event. */
function verdictOf (compiled: CompiledSchema, { properties }: Stored): string {
  const failures = compiled.failuresOf(JSON.parse(properties) as Record<string, unknown>, 'stored')
  return failures.map(({ path, keyword }) => `${path} ${keyword}`).join()
}

/**
 * The events of which ingest says another thing than of the others of their class; and how many of the events were
 * told apart without their texts, and met or failed.
 */
function compare (
  classes: readonly Class[], stored: readonly Stored[], compiled: CompiledSchema
): { wrong: string[], sure: number, verdicts: number } {
  const of = new Map(stored.map((each, index) => [uuidOf(index), each]))
  const verdicts = new Set<string>()
  const wrong = classes.flatMap(({ members }) => {
    const said = members.map((uuid) => verdictOf(compiled, of.get(uuid)!))
    for (const verdict of said) verdicts.add(verdict)
    const other = said.findIndex((verdict) => verdict !== said[0])
    if (other === -1) return []
    const [one, two] = [0, other].map((at) => `${of.get(members[at]!)!.properties.slice(0, 200)} (${said[at] === '' ? 'met' : said[at]})`)
    return [`${JSON.stringify(compiled.schema).slice(0, 300)}: ${one} and ${two}`]
  })
  return { wrong, sure: classes.reduce((sum, { sure }) => sum + sure, 0), verdicts: verdicts.size }
}

const LISTED = ['', 'a', '\u00e9', '"', '\\', '\u{1f600}', '[', '\n', '__proto__', "'"]
const TYPES = ['string', 'number', 'integer', 'boolean', 'null', 'object', 'array', ['integer', 'null']]
const LENGTHS = [0, 1, 2, 3, 20, 21, 8192, 2 ** 53 - 1]
const DIVISORS = [1, 2, 3, 7, 1000, 0.1, 0.5, 1e-7, 123456789012345, 2 ** 53 - 1, 2 ** 53, 1e300]

const SCHEMAS: readonly object[] = [
  ...TYPES.map((type) => ({ type })),
  ...HOSTILE_TEXTS.map((text) => ({ const: text })),
  { enum: HOSTILE_TEXTS.slice(0, 20) }, { enum: LISTED }, { enum: [...LISTED, null, true, 0] },
  { enum: HOSTILE_BOUNDS },
  ...LENGTHS.flatMap((size) => [{ minLength: size }, { maxLength: size }, { minLength: size, maxLength: size }]),
  ...PATTERN_LIST.map((pattern) => ({ pattern })),
  ...FORMAT_NAMES.map((format) => ({ format })),
  ...HOSTILE_BOUNDS.flatMap((bound) => [
    { minimum: bound }, { maximum: bound }, { exclusiveMinimum: bound }, { exclusiveMaximum: bound }, { const: bound }
  ]),
  ...DIVISORS.map((multipleOf) => ({ multipleOf })),
  { items: { type: 'string' } }, { items: { maxLength: 3 }, maxItems: 3 }, { maxItems: 2 }, { minItems: 1 },
  { required: ['a'] }, { properties: { a: { type: 'object' } }, maxProperties: 1 },
  { not: { type: 'string', pattern: '^a' } }, { anyOf: [{ pattern: '^a' }, { minimum: 1 }, { items: { maxLength: 1 } }, { const: null }] },
  { if: { type: 'string' }, then: { format: 'date', enum: ['2026-11-21'] }, else: { multipleOf: 2, maximum: 10 } }
]

t.test('events that SQL counts together are events of which ingest says the same, whatever their values are', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const stored = store(HOSTILE_VALUES)
  await insert(clickhouse, 'e', stored)
  const found = { wrong: [] as string[], sure: 0, told: 0 }
  for (const [index, schema] of SCHEMAS.entries()) {
    // Every second one asks for the names of all properties as well.
    const others = index % 2 === 0 ? {} : { required: ['v'], anyOf: [{ maxProperties: 2 }, {}] }
    const compiled = compileSchema({ properties: { v: schema }, ...others })
    const { wrong, sure, verdicts } = compare(await readClasses(clickhouse, 'e', compiled), stored, compiled)
    found.wrong.push(...wrong)
    found.sure += sure
    if (verdicts > 1) found.told++
  }
  t.same(found.wrong.slice(0, 5), [])
  t.ok(found.sure > stored.length * SCHEMAS.length / 2, `${found.sure} times an event is known without its text`)
  t.ok(found.told > SCHEMAS.length / 2, `${found.told} schemas tell events apart`)
})

t.test('an event whose shape leaves open what no other did is not counted with them', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const stored = store(HOSTILE_VALUES)
  await insert(clickhouse, 'e', stored)
  for (const schema of [{ type: 'string' }, { enum: ['a', 1, null] }, { items: { type: 'string' } }, true]) {
    const compiled = compileSchema({ properties: { v: schema }, required: ['v'] })
    const { wrong, verdicts } = compare(await readClasses(clickhouse, 'e', compiled, [false]), stored, compiled)
    t.same(wrong, [])
    t.equal(verdicts > 1, schema !== true)
  }
})

/** Names of which shapes say nothing or something else, and names inside of values. */
const NAME_LISTS: readonly string[][] = [
  [], ['a'], ['b'], ['a', 'b'], ['b', 'a'], ['a', 'c'], [''], ['', 'a'], ['$set'], ['$set', 'a'], ['a', '$set'],
  ['$groups', 'a'], ['$group_0'], ['a', 'x'.repeat(201)], ['a', 'y'.repeat(201)], ['a', '\ufffd'], ['a', '\0'],
  ['a', '\ud800'], ['\ufffd'], ['\0'], ['a', 'b\0c'], ['a', '"'], ['a', '":'], ['a', '\\'], ['\u00e9', 'a'],
  ['constructor'], ['__proto__'], ['a', 'toString']
]

/** As ingest does (`ingest/normalise/read-properties.ts`). */
function describe (names: readonly string[], code: string): string {
  const described = names.filter((name) => !name.startsWith('$') && name.length <= 200)
  return described.map((name) => `e${code}${name.replaceAll(/\p{Surrogate}|\0/gu, '\ufffd')}`).join('\0')
}

t.test('events with other names, or in another order, are told apart', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const stored = NAME_LISTS.flatMap((names) => ['1', '{"a":1}', '{"$set":{"b":1}}', '"\\":"'].map((value): Stored => ({
    properties: `{${names.map((name) => `${JSON.stringify(name)}:${value}`).join(',')}}`,
    types: describe(names, value === '1' ? 'N' : value.startsWith('"') ? 'S' : '?')
  })))
  await insert(clickhouse, 'e', stored)
  const found = { wrong: [] as string[], told: 0 }
  for (const schema of [
    { additionalProperties: false }, { properties: { a: true }, additionalProperties: false }, { maxProperties: 1 },
    { patternProperties: { '^[a-z]': true }, additionalProperties: false }, { patternProperties: { '^\\$': false } },
    { minProperties: 2 }, { required: ['b'], maxProperties: 2 },
    { properties: { a: { type: 'number' } }, additionalProperties: false }
  ]) {
    const compiled = compileSchema(schema)
    const { wrong, verdicts } = compare(await readClasses(clickhouse, 'e', compiled), stored, compiled)
    found.wrong.push(...wrong)
    found.told += verdicts
  }
  t.same(found.wrong, [])
  t.ok(found.told > 20, `${found.told} verdicts`)
})

/** Pieces of patterns, right and wrong ones. */
const piece = fc.constantFrom(
  ...'abcAZ09 _-.,:;!@#%&<>/~="\'`'.split(''), '^', '$', '|', '(', ')', '(?:', '.', '*', '+', '?', '{2}', '{1,}',
  '{0,3}', '{3,1}', '{', '}', '[', ']', '[^', '-',
  '\\d', '\\D', '\\w', '\\W', '\\s', '\\S', '\\b', '\\B', '\\.', '\\\\', '\\[', '\\]', '\\$', '\\-', '\\/', '\\"',
  '\\_', '[a-c]', '[^a-c]', '[\\d-z]', '[a-]', '[-a]', '[\\w.-]', '[ -~]',
  '[a|b]', '[(]', '[$^]', '[^^]', '(?:a|b)', '(a|b|)', '(?i)', '\\p{L}', '\u00e9')

const pattern = fc.array(piece, { minLength: 1, maxLength: 8 }).map((pieces) => pieces.join(''))

const asciiText = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'abcz09 .-_$'.split('')), maxLength: 6 }),
  fc.string({ unit: 'grapheme-ascii', maxLength: 12 }))

t.test('a pattern that is asked of SQL means there what it means at ingest', async (t) => {
  const clickhouse = await createTestClickHouse(t)
  const patterns = fc.sample(pattern.filter((each) => isPortable(each) && compiles(each)), PATTERNS)
  const stored = store([...fc.sample(asciiText, 300), ...HOSTILE_TEXTS].map((text) => JSON.stringify(text)))
  await insert(clickhouse, 'e', stored)
  const found = { wrong: [] as string[], sure: 0, told: 0, refused: 0 }
  for (const each of patterns) {
    const compiled = compileSchema({ properties: { v: { pattern: each } } })
    const classes = await readClasses(clickhouse, 'e', compiled).catch((error: unknown) => {
      if (!isGivenUp(error)) throw error
      return null
    })
    if (classes === null) {
      found.refused++
      continue
    }
    const { wrong, sure, verdicts } = compare(classes, stored, compiled)
    found.wrong.push(...wrong)
    found.sure += sure
    if (verdicts > 1) found.told++
  }
  t.same(found.wrong.slice(0, 5), [])
  t.ok(found.sure > stored.length * patterns.length / 2, `${found.sure} times an event is known without its text`)
  t.ok(found.told > PATTERNS / 5, `${found.told} patterns tell texts apart`)
  t.ok(found.refused < PATTERNS / 5, `${found.refused} patterns are refused`)
})

t.test('patterns that engines read in different ways are not asked of SQL', (t) => {
  const others = [
    '(?i)a', '(?s).', '(?m)^a$', '(?P<n>a)', '(?<n>a)', '\\pL', '\\p{Lu}', '\\PL', '[[:alpha:]]', '[^[:alpha:]]',
    '\\x41', '\\101', '\\n', '\\t', '\\v', '\\A', '\\z', '\\C', '\\Qa\\E', '\\1',
    'a*?', 'a+?', 'a??', 'a*+', 'a{2}?', 'a{2}{3}', 'a**', '{', '}', 'a{', 'a{,2}', ']', '[]a]', '[a[b]', '[a&&b]',
    '\u00e9', '\u{1f600}', '\n', '\0', 'a\\', '[^]', '[]', '[^]a[b]'
  ]
  t.same(others.filter(isPortable), [])
  const begun = performance.now()
  for (const text of [`${'(?:'.repeat(160)}a`, '[^a]'.repeat(120), '\\\\'.repeat(240), 'a{1}'.repeat(120), '[a-z]+'.repeat(80)]) t.notOk(isPortable(`${text}\u00e9`))
  t.ok(performance.now() - begun < 1000, 'the time does not double with each group')
  t.same(PATTERN_LIST.filter((each) => !isPortable(each)), [])
  t.end()
})

function compiles (each: string): boolean {
  try {
    compileSchema({ properties: { v: { pattern: each } } })
    return true
  } catch {
    return false
  }
}
