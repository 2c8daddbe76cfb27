import fc from 'fast-check'
import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { decodeBody } from './decode-body.ts'
import { cutText, isStorableText, mayHoldUnstorableText, toStorableJson, toStorableText } from './storable-text.ts'

/** Strings as nobody would send them on purpose: any UTF-16 units, and emoji. */
const unit = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'Z', ' ', '0', 'é', 'e\u0301', '日', '😀', '👨‍👩‍👧', '\u{1f1e9}\u{1f1ea}') },
  { weight: 1, arbitrary: fc.constantFrom('\0', '\x01', '\ud800', '\udc00', '\uffff', '\u2028', '\t', '"', '\\', '\u200d') },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) }
)
const text = fc.array(unit, { maxLength: 40 }).map((units) => units.join(''))

t.test('converted text is storable, storable text is unchanged, and JSON shows which may not be', async (t) => {
  fc.assert(fc.property(text, (sent) => {
    const stored = toStorableText(sent)
    return isStorableText(stored) && stored.length === sent.length && (stored === sent) === isStorableText(sent) &&
      toStorableJson(sent) === stored && (isStorableText(sent) || mayHoldUnstorableText(JSON.stringify(sent)))
  }), { numRuns: 1000 })
  for (const escaped of ['"\\u0000"', '"\\uD800"', '"\\udfff"']) t.ok(mayHoldUnstorableText(Buffer.from(escaped)), escaped)
})

t.test('Postgres takes exactly the text that passes for storable', async (t) => {
  const { sql } = await createTestPostgres(t)
  await fc.assert(fc.asyncProperty(text, async (sent) => {
    const read = async (value: string): Promise<unknown> =>
      (await sql<{ value: unknown }[]>`SELECT ${JSON.stringify(value)}::text::jsonb AS value`)[0]?.value
    const stored = toStorableText(sent)
    return await read(stored) === stored && (isStorableText(sent) || await read(sent).then(() => false, () => true))
  }), { numRuns: 100 })
  t.pass()
})

t.test('text is cut after whole characters', async (t) => {
  fc.assert(fc.property(text, fc.nat(50), (sent, limit) => {
    const cut = cutText(sent, limit)
    return cut === [...sent].slice(0, limit).join('') && cutText(cut, limit) === cut
  }), { numRuns: 500 })
  const short = 'short'
  t.equal(cutText(short, 5), short)
})

t.test('strings and names are made storable at any depth, numbers and names of the language stay', async (t) => {
  const text = '{"a\\u0000b":["x\\ud800",{"__proto__":9007199254740993}],"n":1,"pair":"\\ud83d\\ude00"}'
  const stored = toStorableJson(decodeBody(Buffer.from(text), {}, 1e6))
  t.equal(JSON.stringify(stored), '{"a\ufffdb":["x\ufffd",{"__proto__":9007199254740993}],"n":1,"pair":"😀"}')
  t.equal(JSON.stringify(decodeBody(Buffer.from(text), {}, 1e6, true)), JSON.stringify(stored), 'for callers that ask for it')
})

t.test('the beginning of a text does not keep the rest in memory', async (t) => {
  const before = process.memoryUsage().heapUsed
  const kept = Array.from({ length: 200 }, (_, n) => cutText('é'.repeat(1_000_000) + n, 200))

  // Views of the whole would keep 200 MB.
  t.ok(process.memoryUsage().heapUsed - before < 100e6, `${process.memoryUsage().heapUsed - before} bytes`)
  t.ok(kept.every((text) => text === 'é'.repeat(200)))
})
