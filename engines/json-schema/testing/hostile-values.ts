/** Values that engines read in different ways, as JSON that may be stored. */

/** Texts: of other scripts and planes, empty, escaped, with what JSON, SQL and patterns are made of. */
const TEXTS: readonly string[] = [
  '', ' ', 'a', 'A', 'ab', 'abc', 'b', '0', '-0', '1', '1e400', 'null', 'true', '__proto__', 'constructor',
  '\u00e9', 'e\u0301', '\u00df', '\u0130', '\u212a', '\u{1f600}', '\u{1f600}\u{1f600}', '\u{10ffff}', 'a\u{1f600}',
  '\u200d', '\ufeff', '\u00a0', '\u2028', '\u3000',
  '\u0660', '\u0967', '\n', 'a\n', '\na', 'a\r\nb', '\t', '\0', '\u007f', '\u0085', '"', '""', '\\', '\\\\', '\\"',
  '\'', '\\\'', '`', '{', '}', '[', ']', '[]', '{}', '[[',
  ',', ':', ':,', '"v":1', '","v":"', 'a,b', 'a}b', 'a]b', '$', '^', '^a$', '.*', '%', '_', '(', '|', '\\d',
  '\\x41', 'x'.repeat(20), 'x'.repeat(21),
  '2026-11-21', '2026-02-30', '2026-13-01', '2026-11-21 ', '2026-11-21\n', '2026-11-21T10:00:00Z',
  '2026-11-21t24:00:00z', '2026-11-21T10:00:60.5+01:00',
  '2026-11-21T10:00:00', '\u0662\u0660\u0662\u0666-11-21', 'a@b', 'a@b@c', 'a b@c', 'a@\u00e9',
  `${'a'.repeat(64)}@b`, `${'a'.repeat(65)}@b`, `a@${'b'.repeat(256)}`,
  'https://example.com/', 'https://example.com/{id}', 'x:y', '1x:y', 'x:', 'x:\u00e9', 'x:a b',
  '0190d5a0-0000-7000-8000-00000000000f', '0190D5A0-0000-7000-8000-00000000000F',
  '0190d5a000007000800000000000000f', `x:${'y'.repeat(8190)}`, `x:${'y'.repeat(8191)}`
]

const NUMBERS: readonly string[] = [
  '0', '-0', '0.0', '-0.0', '0e5', '1', '1.0', '1.', '1e0', '1E0', '10e-1', '-1', '2', '3', '4', '5', '7', '10',
  '1.5', '-1.5', '0.1', '0.2', '0.3', '0.30000000000000004',
  '0.30000000000000001', '2.0000000001', '1.9999999999', '1.00000000000000001', '1.00000000000001',
  '0.99999999999999', '100', '100.5', '999999999999999', '1000000000000000',
  '123456789012345', '-123456789012345', '12345678901234.5', '99999999999999.9', '9007199254740991',
  '9007199254740992', '9007199254740993', '9007199254740994',
  '-9007199254740993', '9223372036854775807', '9223372036854775808', '-9223372036854775808',
  '-9223372036854775809', '18446744073709551615',
  '18446744073709551616', '100000000000000000000', '1e20', '1e21', '1e308', '1.7976931348623157e308', '1e400',
  '-1e400', '1e-400', '5e-324', '1e-7', '0.0000001', '1e15', '1e16',
  `1${'0'.repeat(400)}`, `0.${'0'.repeat(30)}1`
].filter((text) => isJson(text))

const OTHERS: readonly string[] = [
  'true', 'false', 'null', '[]', '{}', '[null]', '["a"]', '["a","b"]', '[1,2,3]', '[[]]', '[[[1]]]', '["["]',
  '["]"]', '["{","a"]', '["a,b"]', '["\\"a"]', '["\\\\"]', '["\\\\","a"]',
  // A search for the end of the list that knows no escaped backslash ends both after the third text.
  '["b\\\\",",x","],A"]', '["b\\\\",",x","],BBBB",1]', '[",x"]', '{"a":1}', '{"__proto__":1}',
  '{"constructor":{"prototype":1}}', '{"a":{"b":{"c":[]}}}', '{"a":"}"}', '{"a":"{"}',
  '{"v":1}', '{"a":1,"a":2}', '{"\\u0061":1}', '{"":0}', '{"b\\\\":"},\\"x"}',
  `${'['.repeat(200)}${']'.repeat(200)}`
]

/** Texts that are escaped otherwise than we write them, as another writer of the table may. */
const ESCAPED: readonly string[] = [
  '"\\u0061"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00a"', '"\\/"', '"\\u0000"', '"a\\u005d"'
]

/** JSON of values. */
export const HOSTILE_VALUES: readonly string[] = [
  ...TEXTS.map((text) => JSON.stringify(text)), ...NUMBERS, ...OTHERS, ...ESCAPED
]

/** Numbers that schemas are bounded by. */
export const HOSTILE_BOUNDS: readonly number[] = [
  0, -0, 1, -1, 2, 1.5, 0.1, 0.3, 0.30000000000000004, 10, 1e-7, 5e-324, 123456789012345, 999999999999999,
  2 ** 53 - 1, 2 ** 53, 2 ** 53 + 2, -(2 ** 53), 2 ** 63,
  -(2 ** 63), 2 ** 64, 1e20, 1e21, 1.7976931348623157e308
]

/** Texts that schemas list. */
export const HOSTILE_TEXTS = TEXTS

function isJson (text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
