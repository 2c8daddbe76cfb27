import fc from 'fast-check'
import t from 'tap'
import { parseJson } from './parse-json.ts'
import { stringifyJson } from './stringify-json.ts'

t.test('gives what JSON.stringify gives, for all that it can', async (t) => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const text = JSON.stringify(value)
    return stringifyJson(value) === text.toWellFormed() || text.includes('\\ud') || /\d{19}/.test(text)
  }), { numRuns: 500 })
  t.pass()
})

t.test('depth does not matter, of arrays or objects, and siblings stay', async (t) => {
  for (const text of ['['.repeat(200_000) + ']'.repeat(200_000), '{"a":'.repeat(50_000) + '[1,"x",null,true]' + '}'.repeat(50_000)]) {
    const whole = `{"before":[{}],"deep":${text},"after":{"b":-1.5,"c":""}}`
    t.ok(stringifyJson(JSON.parse(whole)) === whole)
  }
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
