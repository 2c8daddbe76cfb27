import t from 'tap'
import { listDifferences, readJson, toTextError } from './json-text.ts'

t.test('an error of the API names its field by the names of the text', async (t) => {
  const fieldOf = (attr: string | null): string => toTextError({ message: 'no', attr }, 'schema__').field
  t.equal(fieldOf('schema__properties__plan__enum__1'), 'properties › plan › enum › 1')
  t.same(['schema', 'event', null].map(fieldOf), ['', '', ''], 'of the whole, or another field')
  t.same(toTextError({ message: 'no', attr: 'actions__0__rate' }), { message: 'no', field: 'actions › 0 › rate' })
})

t.test('what is no JSON is told', async (t) => {
  t.same(readJson('{"a": [1]}'), { value: { a: [1] } })
  t.match(readJson('{\n  "a": 1\n  "b": 2\n}').error, { message: /^This is not JSON: .*line 3/, field: '' })
})

t.test('two values differ in places, whatever the order of their names', async (t) => {
  const one = { required: ['plan'], properties: { plan: { type: 'string' }, seats: { type: 'integer' } } }

  t.same(listDifferences(one, { properties: { seats: { type: 'integer' }, plan: { type: 'string' } }, required: ['plan'] }), [])
  t.same(listDifferences(one, { required: ['plan', 'seats'], properties: { plan: { type: 'string', enum: ['a'] }, seats: { type: 'integer' } } }),
    ['required', 'properties › plan › enum'])
  t.same(listDifferences(one, true), ['the whole'])
  t.equal(listDifferences({}, Object.fromEntries(Array.from({ length: 50 }, (_, index) => [index, index]))).length, 20)
})
