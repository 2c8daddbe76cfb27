import fc from 'fast-check'
import t from 'tap'
import { compileSchema } from '../../../engines/json-schema/compile-schema.ts'
import { randomProperties, randomSchema } from '../../../engines/json-schema/testing/random-schemas.ts'
import { schemaToType } from './schema-to-type.ts'
import { typeErrors, writeSources } from './testing/compile-module.ts'

// eslint-disable-next-line no-template-curly-in-string -- it is the text of a template type
const INTERNAL = '{ "a"?: any; [key: `$${string}`]: any }'

const type = (schema: unknown): string => schemaToType(schema, { left: 1000 })

t.test('whatever meets a random schema is assignable to its type', async (t) => {
  const lines: string[] = []
  let met = 0
  for (const [schema, properties] of fc.sample(fc.tuple(randomSchema, randomProperties), { numRuns: 1500, seed: 24 })) {
    if (compileSchema(schema).check(properties, 'stored') !== null) continue
    met++
    lines.push(`{ const sent: ${type(schema)} = ${JSON.stringify(properties)}; void sent }`)
  }
  const folder = await writeSources(t, { 'random.ts': `${lines.join('\n')}\nexport {}\n` })

  t.ok(met > 300, `${met} events meet their schema`)
  t.same(typeErrors(folder, ['random.ts']), [])
})

t.test('says of each property which values it takes', async (t) => {
  t.equal(type({ properties: { plan: { enum: ['free', 'pro', 3, null] }, seats: { type: 'integer' } }, required: ['plan'] }),
    '{ "plan": "free" | "pro" | 3 | null; "seats"?: number | undefined; [key: string]: any }')
  t.equal(type({ required: ['only named'] }), '{ "only named": any; [key: string]: any }')
  t.equal(type({ properties: { at: { type: 'string', format: 'date-time' }, tags: { type: 'array', items: { type: 'string' } } } }),
    '{ "at"?: string | Date | undefined; "tags"?: readonly (string)[] | undefined; [key: string]: any }')
  t.equal(type({ properties: { a: { $ref: '#/$defs/t' } }, $defs: { t: { type: 'boolean' } } }),
    '{ "a"?: boolean | undefined; [key: string]: any }')
  t.equal(type({ properties: { a: { type: 'string' } }, additionalProperties: false }), '{ "a"?: string | undefined }')
  t.equal(type({ properties: { a: true }, patternProperties: { '^\\$': true }, additionalProperties: false }),
    INTERNAL, 'internal properties of SDKs may come')
})

t.test('takes any name, and never ends a text early', async (t) => {
  const names = ['constructor', '__proto__', 'toString', "it's", '"', '`$' + '{1}`', '\\', '*/', '\u2028', '\n', '\ud800', 'class', '']
  const schema = { properties: Object.fromEntries(names.map((name) => [name, { type: 'number' }])), required: ['class'] }
  const folder = await writeSources(t, {
    'names.ts': `export const sent: ${type(schema)} = { "class": 1, "*/": 2 }\n// @ts-expect-error a number is wanted\nexport const wrong: ${type(schema)} = { "class": 1, "*/": "text" }\n`
  })

  t.same(typeErrors(folder, ['names.ts']), [])
})

t.test('writes no more than its budget, whatever the schema is', async (t) => {
  const values = Array.from({ length: 500 }, (_, n) => n)
  const wide = { properties: Object.fromEntries(values.map((n) => [`p${n}`, { enum: values }])) }

  t.ok(schemaToType(wide, { left: 2000 }).length < 20_000)
  t.equal(schemaToType({ $defs: { a: { $ref: '#/$defs/a' } }, allOf: [{ $ref: '#/$defs/a' }] }, { left: 100 }).includes('key'), true, 'a schema that refers to itself ends')
  for (const odd of [null, 3, [], { properties: 3, required: 'x', enum: 1 }]) t.equal(type(odd), '{ [key: string]: any }')
})
