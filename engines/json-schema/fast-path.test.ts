import fc from 'fast-check'
import t from 'tap'
import { compileSchema } from './compile-schema.ts'
import { compileFastPath, sizeOfFastPath, surelyMeets } from './fast-path.ts'

const type = fc.constantFrom('string', 'number', 'integer', 'boolean', 'null', 'object', 'array')
const scalar = fc.constantFrom<unknown>('', 'a', 'ab', 'abc', '😀', '😀😀', 'a😀', 0, -0, 1, 2, -1, 1.5, 1e300, true, false, null)
const count = fc.nat({ max: 4 })
const bound = fc.constantFrom(-1, 0, 1, 1.5, 2)

const keywords = {
  type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
  enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 8, selector: JSON.stringify }),
  const: scalar,
  minimum: bound,
  maximum: bound,
  minLength: count,
  maxLength: count,
  description: fc.constant('what it means'),
  // These have no fast path.
  exclusiveMinimum: bound,
  multipleOf: fc.constant(2),
  pattern: fc.constant('^a'),
  not: fc.record({ type })
}

const subschema = fc.subarray(Object.keys(keywords) as (keyof typeof keywords)[], { maxLength: 3 })
  .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, keywords[name] as fc.Arbitrary<unknown>]))))

const value = fc.oneof(scalar, fc.constantFrom<unknown>([], ['a'], {}, { a: 1 }))

t.test('the fast path never passes a value that the checks fail, and passes nearly all others', async (t) => {
  const seen = { fast: 0, left: 0, failed: 0, withoutPath: 0 }
  fc.assert(fc.property(subschema, fc.array(value, { minLength: 5, maxLength: 5 }), (schema, values) => {
    // Within allOf the checks decide alone.
    const { check } = compileSchema({ properties: { a: { allOf: [schema] } } })
    let isChecked = false
    // In a longer array, as the plan of a schema has it.
    const path = ['before', ...compileFastPath(schema, () => { isChecked = true; return true }), 'after']
    if (sizeOfFastPath(path, 1) !== path.length - 2) throw new Error(`${JSON.stringify(schema)} has another size`)
    for (const value of values) {
      isChecked = false
      const isFast = surelyMeets(path, value, 1)
      if (isChecked) {
        seen.withoutPath++
        continue
      }
      const isMet = check({ a: value }, 'stored') === null
      if (isFast && !isMet) throw new Error(`${JSON.stringify(schema)} passes ${JSON.stringify(value)}`)
      // Only a text whose characters have to be counted is left to the checks.
      if (isMet && !isFast && !(typeof value === 'string' && ('minLength' in schema || 'maxLength' in schema))) {
        throw new Error(`${JSON.stringify(schema)} does not pass ${JSON.stringify(value)}`)
      }
      seen[!isMet ? 'failed' : isFast ? 'fast' : 'left']++
    }
  }), { numRuns: 5000 })
  t.ok(seen.fast > 5000 && seen.failed > 2000 && seen.left > 0 && seen.withoutPath > 1000, JSON.stringify(seen))
})

t.test('an event that the checks decide says the same with and without the fast path', async (t) => {
  const schema = { type: 'integer', minimum: 1, maximum: 5 }
  const { check } = compileSchema({ properties: { fast: schema, slow: { allOf: [schema] } } })
  for (const value of [0, 1, 5, 6, 1.5, '1', null, [], {}]) {
    const [fast, slow] = ['fast', 'slow'].map((name) => check({ [name]: value }, 'sent'))
    t.equal(fast?.keyword, slow?.keyword, JSON.stringify(value))
    t.same(fast?.value, slow?.value, JSON.stringify(value))
  }
})
