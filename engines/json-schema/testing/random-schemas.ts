import fc from 'fast-check'

const scalar = fc.constantFrom('', 'a', 'ab', 'abc', 0, 1, 2, -1, 1.5, 10, true, false, null)
const type = fc.constantFrom('string', 'number', 'integer', 'boolean', 'null', 'object', 'array')
const count = fc.nat({ max: 3 })

/** A schema of a value or of properties with these names. */
function anySchemaOf (name: fc.Arbitrary<string>): fc.Arbitrary<object | boolean> {
  return fc.letrec<{ schema: object | boolean }>((tie) => ({
    schema: fc.oneof({ depthSize: 'small', withCrossShrink: true },
      fc.boolean(),
      fc.record({ type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })) }),
      fc.record({ enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 4 }) }),
      fc.record({ const: scalar }),
      fc.record({ minLength: count, maxLength: count }, { requiredKeys: [] }),
      fc.record({ pattern: fc.constantFrom('^a', 'b$', '^[ab]{1,2}$', 'c') }),
      fc.record({ minimum: count, exclusiveMaximum: count }, { requiredKeys: [] }),
      fc.record({ multipleOf: fc.constantFrom(1, 2, 0.5) }),
      fc.record({ maximum: count, exclusiveMinimum: count }, { requiredKeys: [] }),
      fc.record({ items: tie('schema'), minItems: count, maxItems: count }, { requiredKeys: [] }),
      fc.record({
        properties: fc.dictionary(name, tie('schema'), { maxKeys: 3 }),
        patternProperties: fc.dictionary(fc.constantFrom('^a', '^\\$', 'b'), tie('schema'), { maxKeys: 1 }),
        additionalProperties: tie('schema'),
        required: fc.uniqueArray(name, { maxLength: 2 }),
        dependentRequired: fc.dictionary(name, fc.uniqueArray(name, { maxLength: 2 }), { maxKeys: 1 }),
        minProperties: count,
        maxProperties: fc.nat({ max: 5 })
      }, { requiredKeys: [] }),
      fc.record({ allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }) }),
      fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ not: tie('schema') }),
      fc.record({ if: tie('schema'), then: tie('schema'), else: tie('schema') }, { requiredKeys: ['if'] }))
  })).schema
}

/** Few names and values, so that schemas and properties meet. */
const name = fc.constantFrom('a', 'b', 'c', '$lib')
const anySchema = anySchemaOf(name)

/** A schema of properties. */
export const randomSchema = fc.record({
  properties: fc.dictionary(name, anySchema, { maxKeys: 3 }),
  required: fc.uniqueArray(name, { maxLength: 1 }),
  allOf: fc.array(anySchema, { minLength: 1, maxLength: 1 }),
  additionalProperties: anySchema,
  maxProperties: fc.integer({ min: 2, max: 5 })
}, { requiredKeys: ['properties'] })

const value = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true },
    scalar, fc.array(tie('value'), { maxLength: 3 }), fc.dictionary(name, tie('value'), { maxKeys: 3 }))
})).value

/** Properties of an event, as JSON has them. */
export const randomProperties = fc.dictionary(name, value, { maxKeys: 4, noNullPrototype: true })

/** Names that mean something elsewhere, or are hard to quote. */
const ODD_NAMES = ['a', 'b', '$lib', 'created_at', 'utm_medium', '$set', '1', "it's `a\\b`.*", '\0', 'ä'.repeat(150)] as const

const oddName = fc.constantFrom(...ODD_NAMES, 'a', 'b', 'b')
const oddSchema = anySchemaOf(oddName)

/** A schema of single properties, as most are: one property says nothing about another. */
export const randomContract = fc.record({
  properties: fc.dictionary(oddName, oddSchema, { maxKeys: 3 }),
  required: fc.uniqueArray(oddName, { maxLength: 2 }),
  dependentRequired: fc.dictionary(oddName, fc.uniqueArray(oddName, { maxLength: 2 }), { maxKeys: 1 }),
  additionalProperties: fc.boolean(),
  patternProperties: fc.dictionary(fc.constantFrom('^a', '^\\$', 'b'), fc.boolean(), { maxKeys: 1 }),
  maxProperties: fc.integer({ min: 2, max: 5 }),
  anyOf: fc.tuple(
    fc.record({ properties: fc.dictionary(oddName, oddSchema, { maxKeys: 1 }) }),
    fc.record({ required: fc.tuple(oddName) }))
}, { requiredKeys: ['properties'] })

/** Values that readers of JSON take in different ways. */
const oddValue = fc.oneof(scalar, fc.constantFrom(
  '2026-11-21', 'true', 'é', '\0', 'abab', 1e9, 1_790_000_000, 0.1, 0.30000000000000004, 2.0000000001, -0.5, 1e-7, 1e300,
  [], ['a'], [1, 2, 3], {}, { a: 1 }, { b: { a: 'x' } }, 'x'.repeat(9000), '[a', 'b}', 'a\\', '"a":1', '\n', ['[', '\\', '"'], { a: '{' }))

/** Properties of an event, as JSON has them, with odd names and values. */
export const randomOddProperties = fc.dictionary(oddName, oddValue, { maxKeys: 5, noNullPrototype: true })
