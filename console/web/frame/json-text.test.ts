import t from 'tap'
import { listDifferences, mergeChanges, readExactly, readJson, readJsonOrText, toTextError } from './json-text.ts'

t.test('an error of the API names its field by the names of the text', async (t) => {
  const fieldOf = (attr: string | null): string => toTextError({ message: 'no', attr }, 'schema__').field
  t.equal(fieldOf('schema__properties__plan__enum__1'), 'properties › plan › enum › 1')
  t.same(['schema', 'event', null].map(fieldOf), ['', '', ''], 'of the whole, or another field')
  t.same(toTextError({ message: 'no', attr: 'actions__0__rate' }), { message: 'no', field: 'actions › 0 › rate' })
})

t.test('invalid JSON is reported', async (t) => {
  t.same(readJson('{"a": [1]}'), { value: { a: [1] } })
  t.match(readJson('{\n  "a": 1\n  "b": 2\n}').error, { message: /^This is not JSON: .*line 3/, field: '' })
})

t.test('two values differ in places, whatever the order of their names', async (t) => {
  const one = { required: ['plan'], properties: { plan: { type: 'string' }, seats: { type: 'integer' } } }

  const places = (other: unknown): string[] => listDifferences(one, other).map(({ place }) => place)

  t.same(places({ properties: { seats: { type: 'integer' }, plan: { type: 'string' } }, required: ['plan'] }), [])
  t.same(places({ required: ['plan', 'seats'], properties: { plan: { type: 'string', enum: ['a'] }, seats: { type: 'integer' } } }),
    ['required', 'properties › plan › enum'])
  t.same(places(true), ['the whole'])
  t.equal(listDifferences({}, Object.fromEntries(Array.from({ length: 50 }, (_, index) => [index, index]))).length, 20)
})

t.test('a difference has the old and new values, in lists of objects too', async (t) => {
  const condition = (rollout: number): object => ({ properties: [{ key: 'plan', value: ['pro'] }], rollout })
  t.same(listDifferences({ name: '', groups: [condition(20)] }, { name: 'New', groups: [{ ...condition(35), variant: null }, {}] }), [
    { place: 'name', before: '""', after: '"New"' },
    { place: 'groups › 0 › rollout', before: '20', after: '35' },
    { place: 'groups › 0 › variant', before: null, after: 'null' },
    { place: 'groups › 1', before: null, after: '{}' }
  ])
  t.same(listDifferences({ value: ['a'] }, { value: ['a', 'b'] }), [{ place: 'value', before: '["a"]', after: '["a","b"]' }])
  t.same(listDifferences([{ a: 1, b: 2 }], [{ b: 2, a: 1 }]), [])
  t.same(listDifferences({}, { groups: [] }), [{ place: 'groups', before: null, after: '[]' }])
})

t.test('a draft goes on from what somebody else stored, with only its own changes', async (t) => {
  const base = { name: '', active: true, groups: [{ rollout: 20 }], gone: 1 }
  const theirs = { ...base, groups: [{ rollout: 90 }], added: 2 }
  const { gone, ...mine } = { ...base, name: 'Mine' }

  t.same(mergeChanges<object>(base, mine, theirs), { name: 'Mine', active: true, groups: [{ rollout: 90 }], added: 2 })
  t.same(mergeChanges<object>(base, { ...base, groups: [{ rollout: 5 }] }, theirs), { ...theirs, groups: [{ rollout: 5 }] }, 'the draft wins where both changed a field')
  t.same(mergeChanges<object>(base, base, theirs), theirs)
})

t.test('JSON of any depth is read, with a long number in it or not', async (t) => {
  const deep = '['.repeat(100_000) + '1234567890123456789' + ']'.repeat(100_000)

  t.ok(Array.isArray(readExactly(deep)))
  t.throws(() => readExactly('[1234567890123456789'), SyntaxError)
  t.same(['19.90', '1e6', '{"price": 19.90}', 'pro', '"42"', '1,5'].map(readJsonOrText), [19.9, 1e6, { price: 19.9 }, 'pro', '42', '1,5'])
})

t.test('whole numbers that a double cannot hold stay as they are', async (t) => {
  const read = readExactly('{"id": 1234567890123456789, "share": 0.14285714285714285, "ids": [9007199254740993, 1]}')

  t.equal(JSON.stringify(read), '{"id":1234567890123456789,"share":0.14285714285714285,"ids":[9007199254740993,1]}')
  t.same(listDifferences(read, { ...Object(read), id: readExactly('1234567890123456790') }), [
    { place: 'id', before: '1234567890123456789', after: '1234567890123456790' }
  ])
})
