import fc from 'fast-check'
import t from 'tap'
import { compareCpu, LINEAR_GROWTH, measureGrowth } from '../../test/support/cpu-time.ts'
import { decodeBody } from './decode-body.ts'
import { hasLongDigits, hasLongNumber, isExactNumber, parseJson, parseStoredJson, replaceOutsideStrings } from './parse-json.ts'
import { findUnstorableNumber } from './storable-numbers.ts'
import { stringifyJson } from './stringify-json.ts'

const decode = (text: string): unknown => decodeBody(Buffer.from(text), {}, 1e6)

t.test('whole numbers beyond 2^53 keep their digits, all others are what they were', async (t) => {
  const texts = [
    '9007199254740993', '-9007199254740993', '12345678901234567890', '1'.repeat(400), '[18446744073709551615]',
    '{"a":{"b":[1,{"id":1729382256910270464123}]}}', '1234567890123456', '0.1234567890123456789', '1e400', '12345678901234567e3'
  ]
  for (const text of texts) {
    const exact = JSON.stringify(decode(`{"properties":{"id":${text}}}`))
    t.equal(exact, /e\d|\./.test(text) ? JSON.stringify(JSON.parse(`{"properties":{"id":${text}}}`)) : `{"properties":{"id":${text}}}`, text)
  }
  t.equal(isExactNumber((decode('{"id":9007199254740993}') as { id: unknown }).id), true)
})

const PLAIN_FIELDS = ['timestamp', 'sent_at', 'offset', 'project_id', 'properties', '$set', '$set_once', '$unset', 'options', 'context', 'traits']
const NAMES = [...PLAIN_FIELDS, 'batch', '$groups', '$group_set']

t.test('names of fields are names like any other within properties', async (t) => {
  for (const name of NAMES) {
    const inside = `{"order":{"${name}":9007199254740993},"list":[{"${name}":9007199254740995}]}`
    const own = name.startsWith('$') ? inside : `{"${name}":9007199254740993,"order":${inside}}`
    for (const body of [`{"event":"e","properties":${own}}`, `[{"properties":${own}}]`, `{"batch":[{"properties":${own}}],"x":[]}`]) {
      t.equal(JSON.stringify(decode(body)), body)
    }
  }
})

t.test('a long number in the place of an object or a time is a plain one, which is neither', async (t) => {
  const long = '12345678901234567891'
  for (const name of PLAIN_FIELDS) {
    for (const body of [`{"${name}":${long}}`, `[{"${name}":${long}}]`, `{"batch":[{"${name}":${long}}]}`]) {
      t.equal(JSON.stringify(decode(body)), body.replace(long, '12345678901234567000'))
    }
  }
  for (const name of NAMES.filter((name) => name.startsWith('$'))) {
    t.same(decode(`[{"properties":{"${name}":${long}}}]`), [{ properties: { [name]: Number(long) } }])
  }
  t.same(decode(`{"batch":${long}}`), { batch: Number(long) })
})

t.test('neither NaN beside them nor depth rounds long numbers, and strings stay what they are', async (t) => {
  const deep = `${'['.repeat(30_000)}${']'.repeat(30_000)}`
  const others = `"text":"NaN 9007199254740993 \\" 12345678901234567890","plain":[1.5,-0.1234567890123456789,1e30],"timestamp":${'7'.repeat(20)}`
  for (const extra of ['', ',"no":NaN,"more":[-Infinity,Infinity]', `,"deep":${deep}`, `,"no":NaN,"deep":${deep}`]) {
    const body = decode(`{"id":9007199254740993,"list":[-9007199254740995],${others},"__proto__":18446744073709551615${extra}}`)
    const { deep: _, no: __, more: ___, ...rest } = body as Record<string, unknown>
    t.equal(JSON.stringify(rest), `{"id":9007199254740993,"list":[-9007199254740995],${others
      .replace('-0.1234567890123456789', '-0.12345678901234568').replace('1e30', '1e+30').replace('7'.repeat(20), '77777777777777770000')
    },"__proto__":18446744073709551615}`, extra.slice(0, 20))
  }
})

t.test('constants outside of strings are replaced, as by patterns that match strings first, and nothing after an unclosed one', async (t) => {
  const stringFirst = /"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|-?Infinity|NaN/gs
  const pieces = fc.array(fc.constantFrom('"', '\\', '\\"', '\n', 'NaN', '-Infinity', 'Na', 'x', '{', ':', ' ', '\ud83d'))
  fc.assert(fc.property(pieces, (list) => {
    const text = list.join('')
    const expected = text.replace(stringFirst, (token) => token.startsWith('"') ? token : 'null')
    return replaceOutsideStrings(text, /"|-?Infinity|NaN/g, () => 'null') === expected
  }), { numRuns: 5000 })
  for (const end of ['', '\\', 'NaN', '\n', '"', '"}}']) {
    t.throws(() => decode(`{"a":NaN,"b":"${end}`), { status: 400, code: 'invalid_json' }, JSON.stringify(end))
  }
})

t.test('a string of escapes takes no more than its length, closed or not', async (t) => {
  const growth = measureGrowth((size) => {
    t.throws(() => decode(`{"a":NaN,"b":"${'\\"'.repeat(size)}`), { status: 400, code: 'invalid_json' })
  }, 80_000)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU, where a try from every quote takes 256 times`)

  const quotes = '\\"'.repeat(6_000_000)
  const { a, b } = decodeBody(Buffer.from(`{"a":NaN,"b":"${quotes}"}`), {}, 2e7) as { a: unknown, b: string }
  t.equal(a, null)
  t.equal(b.length, 6_000_000)
})

t.test('equal numbers stay equal, however they are written', async (t) => {
  for (const text of ['1000000000000000000000', '1e21', '1.0E+21', '1000000000000000000000.0']) t.same(decode(`[${text}]`), [1e21], text)
  t.same(decode('[150000000000000000000000, 9007199254740992, -0]'), [1.5e23, 2 ** 53, 0])
  t.equal(JSON.stringify(parseStoredJson('{"timestamp":12345678901234567891,"a":[1]}')), '{"timestamp":12345678901234567891,"a":[1]}')
})

t.test('a run of sixteen digits is found wherever it stands, and no shorter one', async (t) => {
  for (let before = 0; before < 40; before++) {
    for (const [digits, found] of [[15, false], [16, true], [17, true]] as const) {
      const text = `${'x'.repeat(before)}${'7'.repeat(digits)}${':1'.repeat(before % 3)}`
      t.equal(hasLongNumber(Buffer.from(text)), found, text)
    }
  }
  t.equal(hasLongNumber(Buffer.from('')), false)
})

t.test('a fraction is no long number, and hides none', async (t) => {
  const fraction = '0.14285714285714285'
  for (let before = 0; before < 40; before++) {
    const text = `["${'x'.repeat(before)}",${fraction},1.${'7'.repeat(before * 10 + 1)}]`
    t.equal(hasLongNumber(Buffer.from(text)), false, text)
    t.equal(hasLongDigits(text, 16), false, text)
    const longer = `${text}${'y'.repeat(before % 5)}12345678901234567891`
    t.equal(hasLongNumber(Buffer.from(longer)), true, longer)
    t.equal(hasLongDigits(longer, 16), true, longer)
  }
  t.equal(JSON.stringify(parseStoredJson(`[${fraction},12345678901234567891]`)), `[${fraction},12345678901234567891]`)
})

t.test('finds the first number that no double holds', async (t) => {
  const cases: [json: string, path: string[] | null][] = [
    ['1e400', []],
    ['-1e400', []],
    ['{"a":[1,{"b":1e400}],"c":1e400}', ['a', '1', 'b']],
    [`{"a":${'9'.repeat(400)}}`, ['a']],
    ['{"a":[1.7976931348623157e308,1e-400,-0,12345678901234567890,null,"1e400",true]}', null],
    [`${'['.repeat(100_000)}1e400${']'.repeat(100_000)}`, Array<string>(100_000).fill('0')]
  ]
  for (const [json, path] of cases) t.same(findUnstorableNumber(JSON.parse(json)), path, json.slice(0, 80))
  t.same(findUnstorableNumber(parseJson(`{"a":[1,${'9'.repeat(400)}]}`, true)), ['a', '1'], 'with all its digits')
  t.equal(findUnstorableNumber(parseJson('{"a":12345678901234567890}', true)), null)
})

t.test('gives what JSON.stringify gives, for all that it can', async (t) => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const text = JSON.stringify(value)
    const deep = `${'['.repeat(300)}${text}${']'.repeat(300)}`
    return (stringifyJson(value) === text.toWellFormed() && stringifyJson(JSON.parse(deep)) === deep.toWellFormed()) ||
      text.includes('\\ud') || /\d{19}/.test(text)
  }), { numRuns: 500 })
  t.pass()
})

t.test('depth does not matter, of arrays or objects, and siblings stay', async (t) => {
  for (const text of ['['.repeat(200_000) + ']'.repeat(200_000), '{"a":'.repeat(50_000) + '[1,"x",null,true]' + '}'.repeat(50_000)]) {
    const whole = `{"before":[{}],"deep":${text},"after":{"b":-1.5,"c":""}}`
    t.ok(stringifyJson(JSON.parse(whole)) === whole)
  }
})

t.test('a value costs no more for the depth at which it is', async (t) => {
  const write = (levels: number) => {
    const value: unknown = JSON.parse('['.repeat(levels) + '[1],'.repeat(100_000) + '1' + ']'.repeat(levels))
    return () => { stringifyJson(value) }
  }
  const times = compareCpu(write(10), write(4000), 20)
  t.ok(times < 20, `${times} times the CPU`)
})

t.test('numbers that were kept exactly are written exactly, at any depth', async (t) => {
  const id = parseJson('9007199254740993', true)
  t.equal(stringifyJson({ id }), '{"id":9007199254740993}')
  let deep: unknown = id
  for (let level = 0; level < 50_000; level++) deep = [deep]
  t.ok(stringifyJson(deep).includes('[9007199254740993]'))
})

t.test('whole numbers of more than 64 bits become strings of their digits, wherever they are', async (t) => {
  const texts = ['18446744073709551616', '-9223372036854775809', '100000000000000000000', '1'.repeat(400), `-${'9'.repeat(30)}`]
  const others = '"text":"18446744073709551616","a":[18446744073709551615,-9223372036854775808,1e+30,0.12345678901234568]'
  for (const text of texts) {
    const value = parseJson(`{"n":${text},"x":[{"y":${text}}],${others}}`, true)
    t.equal(stringifyJson(value), `{"n":"${text}","x":[{"y":"${text}"}],${others}}`)
  }
  t.equal(stringifyJson([1e20, -1e20, 1e21]), '["100000000000000000000","-100000000000000000000",1e+21]')
})

t.test('megabytes of text beside such a number stay as they are', async (t) => {
  for (const text of ['x'.repeat(6_000_000), '"\\'.repeat(3_000_000)]) {
    const whole = stringifyJson({ text, n: parseJson('1'.repeat(30), true) })
    t.ok(whole === `{"text":${JSON.stringify(text)},"n":"${'1'.repeat(30)}"}`)
  }
})

t.test('lone surrogates become U+FFFD, pairs and escaped backslashes stay', async (t) => {
  t.equal(stringifyJson({ '\ud800k': ['a\udc00', '😀', '\\ud800', '\\\ud800', '\\\\ud800'] }),
    '{"\ufffdk":["a\ufffd","😀","\\\\ud800","\\\\\ufffd","\\\\\\\\ud800"]}')
})
