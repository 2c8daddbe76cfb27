import fc from 'fast-check'
import t from 'tap'
import { countValues, hasMoreValues, splitJsonArray } from './split-json-array.ts'
import { limitsOfBody, MAX_EVENT_VALUES, UNLIMITED } from './value-limits.ts'

/** What the pieces parse to. */
function parsePieces (text: string): unknown[] | null {
  const bytes = Buffer.from(text)
  const { ranges } = splitJsonArray(bytes, 'batch')
  if (ranges === null) return null
  return Array.from({ length: ranges.length / 2 }, (_, i) =>
    JSON.parse(bytes.toString('utf8', ranges[2 * i], ranges[2 * i + 1])) as unknown)
}

t.test('finds the same elements as parsing the whole, for any JSON and any layout', async (t) => {
  fc.assert(fc.property(fc.array(fc.jsonValue()), fc.constantFrom(undefined, 1, '\t'), (elements, indent) => {
    const text = JSON.stringify(elements, null, indent)
    t.same(parsePieces(text), JSON.parse(text))
    const object = JSON.stringify({ api_key: 'k', batch: elements, sent_at: 5 }, null, indent)
    t.same(parsePieces(object), JSON.parse(JSON.stringify(elements)))
    t.same(splitJsonArray(Buffer.from(object), 'batch').fields, { api_key: 'k', sent_at: 5 })
  }), { numRuns: 300 })
  t.end()
})

t.test('strings with brackets, quotes and escapes do not confuse it', async (t) => {
  const batch = ['[{"', '\\', '\\"]', '"}', '\u2028', { '"]}': '\\\\' }]
  const text = JSON.stringify({ 'a"[': '}', batch, b: '\\"' })

  t.same(parsePieces(` ${text} `), batch)
})

t.test('the last of repeated fields counts', async (t) => {
  t.same(parsePieces('{"batch":[1],"batch":[2,3]}'), [2, 3])
  t.equal(parsePieces('{"batch":[1],"batch":null}'), null)
})

t.test('a field named __proto__ is data', async (t) => {
  const { fields } = splitJsonArray(Buffer.from('{"__proto__":{"api_key":"x"}}'), 'batch')

  t.equal(fields.api_key, undefined)
  t.same(Object.keys(fields), ['__proto__'])
})

const broken = ['', '{', '[', '[1', '[1,', '[1,]', '[,]', '[1]]', '[1]x', '{"a"}', '{"a":}', '{"a":1,}', '{a:1}', '"text"', '5',
  '{"batch":[1,2}', '{"a":"x}', '{"a":tru}', '["\\']
for (const text of broken) {
  t.test(`refuses ${JSON.stringify(text)}`, async (t) => {
    t.throws(() => parsePieces(text), { code: 'invalid_json' })
  })
}

/** One for each element and field, and for empty arrays and objects. */
function expectedValues (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inner = Object.values(value)
  return inner.reduce<number>((sum, each) => sum + expectedValues(each), Math.max(inner.length, 1))
}

t.test('counts the values of any JSON, whatever its texts have, and no more than asked', async (t) => {
  fc.assert(fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
    const bytes = Buffer.from(JSON.stringify([value, '[{,\\"[NaN'], null, indent))
    const expected = 2 + expectedValues(value)
    t.equal(countValues(bytes, expected), expected)
    t.throws(() => countValues(bytes, expected - 1), { status: 413, code: 'body_too_large' })
  }))
  // It has two letters that only such words have.
  t.equal(countValues(Buffer.from('[NaN,-Infinity]'), 9), 5)
  t.equal(hasMoreValues(Buffer.from('[[[['), 3), true)
  t.equal(hasMoreValues(Buffer.from('[[[['), 4), false)
  t.equal(hasMoreValues(Buffer.from('no JSON'), 3), false)
})

t.test('refuses a text at its first value, element or field too many, and marks events with too many values', async (t) => {
  const split = (text: string, limits = {}): ReturnType<typeof splitJsonArray> =>
    splitJsonArray(Buffer.from(text), 'batch', { ...UNLIMITED, ...limits })
  const tooMany = { status: 413, code: 'body_too_large' }
  // Nothing behind the limit is looked at: it would be no JSON.
  t.throws(() => split('[[[[[[!', { values: 5 }), tooMany)
  t.throws(() => split('{"batch":[{},{},{},!', { elements: 2 }), tooMany)
  t.throws(() => split('{"a":1,"a":1,"a":1,!', { fields: 2 }), tooMany)
  t.equal(split('{"a":[1,{"b":2}],"batch":[{},3]}', { values: 8, elements: 2, fields: 2 }).ranges?.length, 4)

  const list = `[${'1,'.repeat(MAX_EVENT_VALUES - 2)}1]`
  const batch = `{"large":[${list}],"batch":[${list},[${list}],{"text":"${'x'.repeat(40_000_000)}"}]}`
  const { oversized, ranges } = split(batch, limitsOfBody(0))
  t.same([...oversized.keys()], [9, ranges?.[2], ranges?.[4]])
})
