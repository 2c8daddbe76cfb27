import t from 'tap'
import { LINEAR_GROWTH, measureGrowth } from '../testing/cpu-time.ts'
import { quoteIdentifier, quoteString, scanSqlTokens, tokenizeSql, unquoteSql } from './sql-lexer.ts'

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
    ['1 1.5 1e5 0xff 0b11 1_0 1abc 1_', ['1', '1.5', '1e5', '0xff', '0b11', '1_0', '1ABC', '1_']],
    ['t.1.2 1.a .5 1e--b\n', ['T', '.', '1', '.', '2', '1.a', '.', '5', '1e-', '-', 'B']],
    ['1a$x$ b$x$', ['1A', '$x$ b$x$']],
    ['a$x$b$x$ $a b$c$a b$', ['A$X$B$X$', '$A', 'B$C$A', 'B$']],
    ['{x:Array(String)}', ['{', 'X', ':', 'ARRAY', '(', 'STRING', ')', '}']],
    ['a->b;c::d', ['A', '-', '>', 'B', ';', 'C', ':', ':', 'D']],
    ['a\u00a0b\u200bc\ufeffd', ['A', 'B', 'C', 'D']],
    ['日本', ['日', '本']],
    ['', []]
  ]
  for (const [sql, expected] of cases) {
    t.same(tokenizeSql(sql).map(({ text }) => text), expected, sql)
  }
})

t.test('calls unclosed quotes and comments broken, up to the end', async (t) => {
  for (const sql of ["'a", '"a', '`a\\`', '/* a /* b */', '‘a', '“a', "x'4g'"]) {
    const tokens = tokenizeSql(`1 ${sql} ; x`)
    t.match(tokens.at(-1), { kind: 'broken' }, sql)
  }
})

t.test('keeps positions that cut the text exactly', async (t) => {
  const sql = "select 'a' /* c */ , b -- d\n"

  for (const { start, end, text, kind } of tokenizeSql(sql)) {
    t.equal(kind === 'word' ? sql.slice(start, end).toUpperCase() : sql.slice(start, end), text)
  }
})

t.test('calls wrong numbers broken, and names that begin with digits words', async (t) => {
  t.same(tokenizeSql('1.a 1a 0x 12').map(({ kind }) => kind), ['broken', 'word', 'word', 'number'])
})

t.test('reads one token at a time, so that data behind a statement is not looked at', async (t) => {
  const tokens = scanSqlTokens(`FORMAT CSV\n'${'x'.repeat(1000)}`)

  t.match(tokens.next().value, { text: 'FORMAT' })
  t.match(tokens.next().value, { text: 'CSV', end: 10 })
})

t.test('reads what a string or a name stands for', async (t) => {
  const cases: Array<[string, string]> = [
    ["'it''s'", "it's"], ["'it\\'s \\\\'", "it's \\"], ["'\\'''''", "'''"], ["'\\t\\x41\\d'", '\tA\\d'], ["'a\"\"'", 'a""'],
    ['"a""b`"', 'a"b`'], ['`c``\\``', 'c``'], ['$$a\\n$$', 'a\\n'], ['$x$a$$x$', 'a$'], ['\u2018a\\n\u2019', 'a\\n'], ["'cut sho", 'cut sho'], ["x'41'", "x'41'"]
  ]
  for (const [text, expected] of cases) t.equal(unquoteSql(text), expected, text)
})

t.test('writes strings and names that are read as they were', async (t) => {
  for (const text of ['', "it's", '\\', 'a`b"c', '\\\'', '日本']) {
    t.equal(unquoteSql(quoteString(text)), text)
    t.equal(unquoteSql(quoteIdentifier(text)), text)
    t.match(tokenizeSql(`${quoteString(text)} ${quoteIdentifier(text)};`).map(({ kind }) => kind), ['string', 'quoted', 'symbol'])
  }
})

t.test('gives up on a text with more words that begin with $ than any query has', async (t) => {
  t.match(tokenizeSql('$a '.repeat(300)).at(-1), { kind: 'unscanned', start: 600, end: 900 })
})

t.test('takes no more than the length of a text, however hostile', async (t) => {
  const repeat = (piece: string) => (size: number) => piece.repeat(size / piece.length)
  const hostile = [
    ...["'\\'", '/*', '--\n', '((((', 'x ', '‘', '$'].map(repeat),
    (size: number) => `SELECT 'paid' {a:${'w'.repeat(size)}`,
    (size: number) => Array.from({ length: Math.ceil(size / 10) }, (_, i) => `$${i} `).join('')
  ]
  for (const write of hostile) {
    const growth = measureGrowth((size) => { tokenizeSql(write(size)) }, 800_000)
    t.ok(growth < LINEAR_GROWTH, `${write(16)}: ${growth} times the CPU`)
  }
})
