import t from 'tap'
import { findPlace, lineOf, listDifferences, locateError, readJson } from './json-text.ts'

const TEXT = `{
  "required": ["plan"],
  "properties": {
    "plan": { "type": "string", "pattern": "(" },
    "a__b": { "enum": [1, "}"] },
    "a": {}
  }
}`

function at (path: string[]): string {
  const { from, to } = findPlace(TEXT, path)
  return TEXT.slice(from, to)
}

t.test('a field is found where it stands in the text', async (t) => {
  t.equal(at(['properties', 'plan', 'pattern']), '"("')
  t.equal(at(['properties', 'plan']), '{ "type": "string", "pattern": "(" }')
  t.equal(at(['properties', 'a__b', 'enum', '1']), '"}"')
  t.equal(at(['required', '0']), '"plan"')
  t.equal(at([]), TEXT)
  t.equal(at(['properties', 'a', 'type']), '"a"', 'one that is missing: the name of what lacks it')
  t.equal(at(['required', '0', 'x']), '"plan"')
  t.equal(at(['unknown']), '{')
  const twice = '{"a": 1, "a" : 2}'
  const { from, to } = findPlace(twice, ['a'])
  t.equal(twice.slice(from, to), '2', 'the last of a name counts, as for JSON')
})

t.test('an error of the API names its field by the names of the text', async (t) => {
  const locate = (attr: string | null) => locateError(TEXT, { message: 'no', attr }, 'schema__')
  t.match(locate('schema__properties__a__b__enum__1'), { message: 'no', path: ['properties', 'a__b', 'enum', '1'], range: { from: TEXT.indexOf('"}"') } })
  t.same(locate('schema__properties__a__type').path, ['properties', 'a', 'type'])
  t.same(locate('schema'), { message: 'no', path: [] })
  t.same(locate('event'), { message: 'no', path: [] }, 'of another field')
  t.same(locate(null), { message: 'no', path: [] })
  t.same(locateError('{"": 1}', { message: 'no', attr: '__x' }).path, ['', 'x'])
  t.equal(lineOf(TEXT, locate('schema__properties__plan__pattern').range!.from), 4)
})

t.test('what is no JSON is told with its place', async (t) => {
  t.same(readJson('{"a": [1]}'), { value: { a: [1] } })
  const broken = '{\n  "a": 1\n  "b": 2\n}'
  const { error } = readJson(broken)
  t.match(error, { message: /^This is not JSON: /, path: [], range: { from: broken.indexOf('"b"') } })
  t.equal(readJson('{"a": ').error?.range?.from, 6, 'at the end')
})

t.test('two values differ in places, whatever the order of their names', async (t) => {
  const one = { required: ['plan'], properties: { plan: { type: 'string' }, seats: { type: 'integer' } } }

  t.same(listDifferences(one, { properties: { seats: { type: 'integer' }, plan: { type: 'string' } }, required: ['plan'] }), [])
  t.same(listDifferences(one, { required: ['plan', 'seats'], properties: { plan: { type: 'string', enum: ['a'] }, seats: { type: 'integer' } } }),
    ['required', 'properties › plan › enum'])
  t.same(listDifferences(one, true), ['the whole'])
  t.equal(listDifferences({}, Object.fromEntries(Array.from({ length: 50 }, (_, index) => [index, index]))).length, 20)
})
