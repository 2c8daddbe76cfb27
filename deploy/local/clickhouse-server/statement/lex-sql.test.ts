import t from 'tap'
import { lexSql } from './lex-sql.ts'

t.test('cuts SQL where the engine does', async (t) => {
  const cases: Array<[string, string[]]> = [
    ['select a1, b$', ['SELECT', 'A1', ',', 'B$']],
    ["'a''b' 'c\\'d' '\\\\'", ["'a''b'", "'c\\'d'", "'\\\\'"]],
    ['"a""b" `c``d` `e\\`f`', ['"a""b"', '`c``d`', '`e\\`f`']],
    ['‘a;b’ “c;d”', ['‘a;b’', '“c;d”']],
    ['a -- b ; c\nd', ['A', '-- b ; c', 'D']],
    ['a // b\nc', ['A', '// b', 'C']],
    ['a # b\nc #!d\ne #f', ['A', '# b', 'C', '#!d', 'E', '#', 'F']],
    ['a /* b /* c */ d */ e', ['A', '/* b /* c */ d */', 'E']],
    ['$$a;b$$ $x$c$$d$x$ $1', ['$$a;b$$', '$x$c$$d$x$', '$1']],
    ["x'4142' b'01' X'aF'", ["x'4142'", "b'01'", "X'aF'"]],
    ['1 1.5 1e5 0xff 1abc t.1', ['1', '1', '.', '5', '1E5', '0XFF', '1ABC', 'T', '.', '1']],
    ['{x:Array(String)}', ['{', 'X', ':', 'ARRAY', '(', 'STRING', ')', '}']],
    ['a->b;c::d', ['A', '-', '>', 'B', ';', 'C', ':', ':', 'D']],
    ['a\u00a0b\u200bc\ufeffd', ['A', 'B', 'C', 'D']],
    ['日本', ['日', '本']],
    ['', []]
  ]
  for (const [sql, expected] of cases) {
    t.same(lexSql(sql).map(({ text }) => text), expected, sql)
  }
})

t.test('calls unclosed quotes and comments broken, up to the end', async (t) => {
  for (const sql of ["'a", '"a', '`a\\`', '/* a /* b */', '‘a', '“a', "x'4g'"]) {
    const tokens = lexSql(`1 ${sql} ; x`)
    t.match(tokens.at(-1), { kind: 'broken' }, sql)
  }
})

t.test('keeps positions that cut the text exactly', async (t) => {
  const sql = "select 'a' /* c */ , b -- d\n"

  for (const { start, end, text, kind } of lexSql(sql)) {
    t.equal(kind === 'word' ? sql.slice(start, end).toUpperCase() : sql.slice(start, end), text)
  }
})

t.test('cuts a megabyte in well under a second, however hostile', async (t) => {
  const numbered = Array.from({ length: 100_000 }, (_, i) => `$${i} `).join('')
  const hostile = ["'\\'", '/*', '--\n', '((((', 'x ', '‘'].map((piece) => piece.repeat(1_000_000 / piece.length))
  for (const text of [...hostile, numbered, '$'.repeat(1_000_000)]) {
    const startedAt = performance.now()
    try { lexSql(text) } catch (error) { t.match(error, { code: 62 }) }
    const tookMs = performance.now() - startedAt
    t.ok(tookMs < 2000, `${text.slice(0, 8)}: ${tookMs} ms`)
  }
})
