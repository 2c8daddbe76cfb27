import fc from 'fast-check'

/** Few names and values, so that schemas and properties meet. */
const name = fc.constantFrom('a', 'b', 'c', '$lib')
const scalar = fc.constantFrom('', 'a', 'ab', 'abc', 0, 1, 2, -1, 1.5, 10, true, false, null)
const type = fc.constantFrom('string', 'number', 'integer', 'boolean', 'null', 'object', 'array')
const count = fc.nat({ max: 3 })

const anySchema = fc.letrec<{ schema: object | boolean }>((tie) => ({
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
