import fc from 'fast-check'
import { RE2JS } from 're2js'
import t from 'tap'
import { compileOnePass } from './one-pass-pattern.ts'

const CHARACTERS = ['a', 'b', 'c', 'Z', '_', '0', '1', '9', '-', '.', ' ', '/', '$', '^', '\n', 'é', '\u2028', '😀']

/** Parts of patterns, some of which need the engine. */
const part = fc.tuple(
  fc.constantFrom('a', 'b', 'Z', '1', '-', '_', ' ', '\\d', '\\w', '\\.', '\\$', '\\/', '[a-c]', '[0-9A-Z]', '[b]', '[-.]', '[a.-]', '[\\d.]',
    '[\\w-]', '[ab$]', '[.+*?]', '[A-c]', '.', '[^a]', '\\s', '(a|b)', '[a-c-9]', '\\b', '$', 'é'),
  fc.constantFrom('', '', '', '?', '*', '+', '{2}', '{1,2}', '{0,3}', '{1,}', '{0}', '+?', '??', '{2}?'))

const pattern = fc.tuple(fc.constantFrom('^', '^', '^', ''), fc.array(part, { maxLength: 5 }), fc.constantFrom('', '$', '\\\\$', '\\$'))
  .map(([start, parts, end]) => start + parts.flat().join('') + end)

const texts = fc.array(fc.array(fc.constantFrom(...CHARACTERS), { maxLength: 7 }).map((characters) => characters.join('')), { minLength: 20, maxLength: 20 })

t.test('says the same of any text as the engine', async (t) => {
  let compiled = 0
  let matched = 0
  fc.assert(fc.property(pattern, texts, (pattern, texts) => {
    const engine = RE2JS.compile(pattern)
    const test = compileOnePass(pattern)
    if (test === null) return
    compiled++
    for (const text of texts) {
      const expected = engine.test(text)
      if (test(text) !== expected) throw new Error(`${pattern} of ${JSON.stringify(text)}: expected ${expected}`)
      if (expected) matched++
    }
  }), { numRuns: 20_000 })
  t.ok(compiled > 3000, `${compiled} of 20,000 patterns need no engine`)
  t.ok(matched > 5000, `${matched} of ${compiled * 20} texts match`)
})

t.test('reads the patterns that schemas mostly have', async (t) => {
  for (const [pattern, match, none] of [
    ['^sku-[0-9]{1,6}$', ['sku-1', 'sku-123456'], ['sku-', 'sku-1234567', 'xsku-1', 'sku-1 ', 'sku-1\n', 'sku-é']],
    ['^[A-Z]{2}$', ['DE'], ['D', 'DEU', 'de']],
    ['^\\d+\\.\\d+\\.\\d+$', ['1.2.3', '10.20.30'], ['1.2', '1..3', '1.2.3.']],
    ['^[a-z]{2}[a-z0-9_]*$', ['ab', 'abc_1'], ['a', 'a1']],
    ['^https://[a-z.]+/', ['https://a.example/x', 'https://a/'], ['https:///', 'http://a/']],
    ['^$', [''], ['a']]
  ] as const) {
    const test = compileOnePass(pattern)
    t.ok(test !== null && match.every((text) => test(text)) && !none.some((text) => test(text)), pattern)
  }
})

t.test('leaves to the engine what can be read in more ways than one, or means more', async (t) => {
  for (const pattern of [
    'sku', '^a+a$', '^a?b?a$', '^[a-c]*[c-e]$', '^\\w+\\d$', '^(a|b)$', '^a|b$', '^.$', '^[^a]$', '^a+?$', '^a{2}+$', '^\\pN$', '^é$', '^\\s$', '^a$b', '^^a'
  ]) t.equal(compileOnePass(pattern), null, pattern)
})
