import { execFile } from 'node:child_process'
import { access, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { readEnvironmentFile } from './read-environment-file.ts'

const run = promisify(execFile)

/** Reads `environment.d` with the parser that systemd reads an EnvironmentFile with, and writes what it understood. */
const GENERATOR = '/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator'

const FILE = `# a comment
; another one
PLAIN=1
COMMENTED=1 # comment
QUOTED="a value" # comment
  INDENTED = a value \t
SINGLE='single \\n' and"x
DOUBLE="double \\" \\n \\\\ \\\` \\
x" tail
CONTINUED=one\\
two
INNER=a"b"c
LINES="multi
line"
HASH=x#y
BACKSLASH=back\\slash
TWICE='a''b' "c"
UMLAUT=é ü
TRAILING=trail\\  \t
EQUALS=a=b
AGAIN=1
AGAIN=2
`

t.test('reads every kind of value', async (t) => {
  const { values } = readEnvironmentFile(`${FILE}EMPTY=\nOPEN="to the\nend`)

  t.same(values, {
    PLAIN: '1', COMMENTED: '1 # comment', QUOTED: 'a value# comment', INDENTED: 'a value', SINGLE: 'single \\nand"x',
    DOUBLE: 'double " \\n \\ ` xtail', CONTINUED: 'onetwo', INNER: 'a"b"c', LINES: 'multi\nline', HASH: 'x#y',
    BACKSLASH: 'backslash', TWICE: 'abc', UMLAUT: 'é ü', TRAILING: 'trail ', EQUALS: 'a=b', AGAIN: '2', EMPTY: '', OPEN: 'to the\nend'
  })
  t.same(readEnvironmentFile(''), { values: {}, problems: [] })
})

t.test('says what systemd reads otherwise than it was meant', async (t) => {
  const problems = (text: string): string[] => readEnvironmentFile(text).problems

  t.same(problems(FILE).map((each) => each.replace(/,.*|: (put|write|close).*/, '')), [
    'line 4: systemd takes # and what follows for part of the value', 'line 5: systemd takes # and what follows for part of the value',
    'line 7: systemd takes what follows the closing quote for part of the value', 'line 8: the quote is not closed on the line',
    'line 10: systemd joins the next line to one that ends with a backslash', 'line 13: the quote is not closed on the line',
    'line 16: systemd takes away a backslash', 'line 17: systemd takes what follows the closing quote for part of the value',
    'line 19: systemd takes away a backslash'
  ])
  t.match(problems('A=1\n\nexport B=2\nA\n2C=1\n'), [/^line 3: systemd ignores it/, /^line 4: /, /^line 5: /])
  t.match(problems('A= # none\nB=#none\n'), [/^line 1: systemd takes #/])
  t.match(problems('# one \\\nA=1\n# two \\\\\nB="x # y"\n'), [/^line 1: the comment ends with a backslash/])
  t.same(problems('A="1 # x"\nB=\'# y\'\nC=a b\nURL=http://a/#b\nD=\'a\\b\'\nE="a\\nb \\"c\\""\r\nF=a"b\nG=it\'s\n'), [])
})

t.test('refuses a quote that is left open, and backslashes that go away, by the line where they begin', async (t) => {
  const problems = (text: string): string[] => readEnvironmentFile(text).problems

  for (const text of ['X="a b\nY=1\nZ="2"\n', "X='a b\nY=1\n", 'X="a b', 'X="a b\\"\n', 'X="', 'X="one"\'two\n']) {
    t.match(problems(`A=1\n${text}`), [/^line 2: the quote is not closed/], text)
  }
  for (const text of ['X=a\\\nY=1\n', 'X=a\\\r\nY=1\n', 'X=a\\', 'X=\\\n']) t.match(problems(text), [/^line 1: systemd joins the next line/], text)
  for (const text of ['X=a\\b\n', 'X=a\\\\b\n', 'X="a\\\\b"\n', 'X="a\\nb\\$c"\n', 'X=a\\ b\n']) t.match(problems(text), [/^line 1: systemd takes away a backslash/], text)
  for (const text of ["X='x y' z\n", 'X="a"b\n', "X='a''b'\n"]) t.match(problems(text), [/^line 1: systemd takes what follows the closing quote/], text)
})

t.test('reads as systemd does, where there is systemd', async (t) => {
  if (!await access(GENERATOR).then(() => true, () => false)) return t.comment('NOT RUN: there is no systemd here')
  const folder = t.testdir()
  await mkdir(path.join(folder, 'environment.d'))
  await writeFile(path.join(folder, 'environment.d', 'test.conf'), `${FILE}export NO=1\n2NO=1\n`)
  const env = { HOME: folder, XDG_CONFIG_HOME: folder, PATH: process.env.PATH }
  const { stdout } = await run(GENERATOR, [], { env })
  const understood = Object.fromEntries([...stdout.matchAll(/^(\w+)=(?:"((?:\\[^]|[^"\\])*)"|(.*))$/gm)].map(([, name, quoted, plain]) =>
    [name!, plain ?? quoted!.replaceAll(/\\([^])/g, (_, next: string) => next === 'n' ? '\n' : next)]))

  const { values } = readEnvironmentFile(FILE)
  t.same(Object.fromEntries(Object.keys(values).map((name) => [name, understood[name]])), values)
  t.notOk('NO' in understood || 'export NO' in understood || '2NO' in understood)
})
