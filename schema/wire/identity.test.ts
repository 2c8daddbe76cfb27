import fc from 'fast-check'
import t from 'tap'
import { decodeBody } from '../../engines/body/decode-body.ts'
import { toDistinctId, toEventName, toGroupKey, toGroupType } from './identity.ts'

/** Strings as nobody would send them on purpose: any UTF-16 units, and emoji, around every limit. */
const unit = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'Z', ' ', '0', 'é', 'e\u0301', '日', '😀', '👨‍👩‍👧', '\u{1f1e9}\u{1f1ea}') },
  { weight: 1, arbitrary: fc.constantFrom('\0', '\x01', '\ud800', '\udc00', '\uffff', '\u2028', '\t', '"', '\\', '\u200d') },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) }
)
const length = fc.oneof(fc.constantFrom(0, 1, 99, 100, 149, 150, 199, 200, 201, 399, 400, 401, 800), fc.nat(850))
const text = fc.tuple(fc.array(unit, { minLength: 1, maxLength: 12 }), length).map(([units, count]) => {
  const characters = [...units.join('')]
  return Array.from({ length: count }, (_, i) => characters[i % characters.length]).join('')
})

/** The stored form, by a plain implementation. */
function stored (sent: string, limit: number): string {
  return [...sent].slice(0, limit).map((character) =>
    character === '\0' || /^[\ud800-\udfff]$/.test(character) ? '\ufffd' : character).join('')
}

t.test('an id is its first characters, with nothing in it that a store refuses', async (t) => {
  fc.assert(fc.property(text, (sent) =>
    toDistinctId(sent) === stored(sent, 200) && toEventName(sent) === stored(sent, 200) &&
    toGroupKey(sent) === stored(sent, 400) &&
    toGroupType(sent) === stored(sent, 200).replaceAll('\x01', '\ufffd')), { numRuns: 800 })
  t.equal(toDistinctId('😀'.repeat(150)), '😀'.repeat(150), '150 emoji are 150 characters')
})

t.test('stored forms are stable', async (t) => {
  fc.assert(fc.property(text, (sent) => {
    const [id, type, key] = [toDistinctId(sent), toGroupType(sent), toGroupKey(sent)]
    return toDistinctId(id) === id && toGroupType(type) === type && toGroupKey(key) === key
  }), { numRuns: 500 })
  for (const none of [undefined, null, '', NaN, Infinity, -Infinity]) t.equal(toDistinctId(none), '')
  for (const [value, id] of [[true, 'true'], [[1, 'a'], '[1,"a"]'], [{ a: { b: null } }, '{"a":{"b":null}}']]) t.equal(toDistinctId(value), id)
})

t.test('a body gives one id for all spellings of a number, and two for two numbers', async (t) => {
  const spell = (digits: string): string[] => [digits, `"${digits}"`]
  const ids = (spellings: string[], beside = ''): string[] => spellings.map((spelling) =>
    toDistinctId((decodeBody(Buffer.from(`{"id":${spelling}${beside}}`), {}, 1e6) as { id: unknown }).id))
  fc.assert(fc.property(fc.bigInt(-(10n ** 40n), 10n ** 40n), fc.constantFrom('', ',"x":NaN'), (whole, beside) => {
    const [one, other] = [ids(spell(String(whole)), beside), ids(spell(String(whole + 1n)), beside)]
    return one.every((id) => id === String(whole)) && other.every((id) => id === String(whole + 1n))
  }), { numRuns: 200 })
  fc.assert(fc.property(fc.maxSafeInteger(), (whole) =>
    new Set(ids([String(whole), `${whole}.0`, `${whole}e0`, `"${whole}"`])).size === 1), { numRuns: 200 })
  fc.assert(fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (double) =>
    new Set(ids([String(double), double.toExponential()])).size === 1), { numRuns: 200 })
  t.same(new Set(ids(['1e21', '1000000000000000000000', '"1000000000000000000000"', '10.0E20'])).size, 1)
  t.same(ids(['-0', '0', '0.0', '-0e5', '1e3', '1000.00', '1e400', '-1e400', 'NaN']), ['0', '0', '0', '0', '1000', '1000', '', '', ''])
})
