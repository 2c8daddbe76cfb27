import t from 'tap'
import { DefinitionError, HttpError } from '../errors.ts'
import { createCompilePattern } from '../json-schema/compile-text.ts'
import { compileSchema } from '../json-schema/compile-schema.ts'
import { compileRule } from '../rules/compile-rule.ts'
import { compileRe2, findSqlGap } from './compile-pattern.ts'
import { readConditions } from './property-conditions.ts'
import { findOperator } from './property-operators.ts'

/** Pattern, the character at which it cannot go on, and what the message names. */
const REFUSED: [pattern: string, character: number, names: RegExp][] = [
  ['a(?=b)', 2, /a look-ahead/], ['^(?!test).*', 2, /negative look-ahead.*not_regex/], ['(?<=a)b', 1, /a look-behind/], ['x(?<!a)b', 2, /negative look-behind/],
  ['(a)\\1', 4, /back-reference/], ['(?<n>a)\\k<n>', 8, /back-reference/], ['(?P<n>a)(?P=n)', 9, /back-reference/], ['a\\g{1}', 2, /back-reference/],
  ['(?>a)b', 1, /atomic group/], ['ba++', 3, /possessive quantifier/], ['a*+b', 2, /possessive/], ['a{2}+', 2, /possessive/], ['(?(1)a|b)', 1, /conditional/],
  ['(?R)', 1, /recursion/], ['(a(?1)?)', 3, /recursion/], ['(?&n)', 1, /recursion/], ['(?P>n)', 1, /recursion/], ['a(?#c)b', 2, /comment/], ['(?|a|b)', 1, /branch reset/],
  ['(?\'n\'a)', 1, /group name/], ['(?<a-b>a)', 1, /group name/], ['(?x)a b', 1, /flag/], ['(?iu:a)', 1, /flag/], ['(?^:a)', 1, /flag/],
  ['ab\\Z', 3, /\\Z.*\\z/], ['\\Ga', 1, /position/], ['a\\Kb', 2, /position/], ['\\h+', 1, /blanks/], ['a\\R', 2, /end of any line/], ['\\X', 1, /class/], ['\\u0041', 1, /code of a character/],
  ['[\\u0041]', 2, /code of a character/], ['\\cA', 1, /code of a character/], ['\\p{Letter}', 1, /Unicode property.*\\p\{Greek\}/], ['[a\\p{IsLatin}]', 3, /Unicode property/], ['\\y', 1, /escape/],
  ['a{1001}', 2, /repetitions/], ['a{2,1}', 2, /repetitions/], ['a**', 2, /quantifier of a quantifier/], ['\\d{2}{3}', 3, /quantifier of a quantifier/],
  ['*a', 1, /missing argument/],
  ['\\(?=x(?=y)', 6, /a look-ahead/], ['[(?=]\\Q(?=\\E(?=y)', 13, /a look-ahead/], ['[]\\]](?!y)', 6, /negative look-ahead/], ['\\\\1(a)\\1', 7, /back-reference/], ['[\\\\](?>a)', 5, /atomic/]
]

t.test('a pattern that the engine does not support is refused by the name of the construct, and its place', async (t) => {
  for (const [pattern, character, names] of REFUSED) {
    const message = compileRe2(pattern)
    t.match(message, names, pattern)
    t.match(message, ` at character ${character}, `, pattern)
  }
  t.match(compileRe2('(a'), /not valid: missing closing \)\.$/)
  t.match(compileRe2('a\\'), /trailing backslash/)
  for (const pattern of ['\\(?=', '[(?=]', '\\Q(?=\\E', '(?i)a', '(?<n>a)', 'a{2,3}?', '\\p{L}', '\\x{41}', '[[:alpha:]]\\z']) t.not(typeof compileRe2(pattern), 'string', pattern)
})

t.test('it says so wherever a pattern can be written', async (t) => {
  const pattern = '^(?!test)'
  const expected = /a negative look-ahead at character 2, .*not_regex/
  const flags = (operator: string): string => {
    let said = ''
    findOperator(operator)!(pattern, { timezone: 'UTC', invalid: (message, code) => { said = `${code}: ${message}` } })
    return said
  }
  for (const operator of ['regex', 'not_regex']) {
    t.match(flags(operator), /^invalid_regex: /)
    t.match(flags(operator), expected)
    const condition = { type: 'property', key: 'k', operator, value: pattern }
    t.throws(() => compileRule({ condition, actions: [{ type: 'drop' }] }, { secret: Buffer.alloc(32), projectId: 1 }), { constructor: DefinitionError, message: expected })
    t.throws(() => readConditions('where', [{ key: 'k', operator, value: pattern }]), { constructor: HttpError, message: expected })
  }
  t.match(createCompilePattern()(pattern), expected)
  t.throws(() => compileSchema({ properties: { a: { pattern } } }), { message: expected })
  t.throws(() => compileSchema({ patternProperties: { [pattern]: {} } }), { message: expected })
  t.match(compileRe2('('.repeat(5000)), /not valid/)
  t.match(flags('regex').length < 300, true)
})

t.test('queries are refused what ClickHouse does not know of Unicode', async (t) => {
  for (const name of ['L', 'Lu', '^L', 'Greek', 'Old_Italic', 'Any', 'N']) t.equal(findSqlGap(`a\\p{${name}}`), null, name)
  for (const name of ['Emoji', 'Alphabetic', 'LC', 'Cn', 'White_Space', '^Dash']) t.match(findSqlGap(`a[\\p{${name}}]`), /character 3/, name)
  t.equal(findSqlGap('\\\\p{Emoji}'), null, 'an escaped backslash')
  t.throws(() => readConditions('where', [{ key: 'k', operator: 'regex', value: '\\p{Emoji}' }]), { message: /character 1/ })
})
