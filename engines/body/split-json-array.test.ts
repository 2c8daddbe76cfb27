import fc from 'fast-check'
import t from 'tap'
import { splitJsonArray } from './split-json-array.ts'

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
