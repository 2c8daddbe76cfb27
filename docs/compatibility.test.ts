import { readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { listShownTests, MATRIX, renderTables } from '../test/sdk/compatibility-matrix.ts'

const ROOT = path.join(import.meta.dirname, '..')

t.test('the tables of the page are those of the matrix, with the versions that are installed', async (t) => {
  const page = readFileSync(path.join(import.meta.dirname, 'compatibility.md'), 'utf8')

  t.equal(renderTables(page), page, 'npm run test:sdks makes them')
  t.match(page, /<!-- unmodified:start -->\n\| client [^]+<!-- recorded:start -->\n\| SDK /)
})

t.test('every row of the matrix names tests that exist', async (t) => {
  const sources = new Map(MATRIX.map(({ file }) => [file, readFileSync(path.join(ROOT, file), 'utf8')]))
  /** A title that a test makes in a loop stands there in two parts. */
  const isThere = (source: string, title: string): boolean => source.includes(title) ||
    title.split(': ').every((part) => source.includes(part) || part.split(', ').every((words) => words.split(' ').every((word) => source.includes(word))))

  t.ok(listShownTests().length > 50)
  t.same(MATRIX.flatMap(({ file, titles }) => titles.filter((title) => !isThere(sources.get(file) ?? '', title))), [])
})

t.test('every duty of a server that the harness of the SDKs implies is shown by tests that exist', async (t) => {
  const page = readFileSync(path.join(import.meta.dirname, 'contract', 'sdk-duties.md'), 'utf8')
  const shown = [...page.matchAll(/`([\w/.-]+\.test\.ts)` ((?:"[^"]+"(?:, )?)+)/g)].flatMap(([, file = '', titles = '']) =>
    [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => ({ file, title })))

  t.ok(shown.length > 30)
  t.same(shown.filter(({ file, title }) => !readFileSync(path.join(ROOT, file), 'utf8').includes(title)), [])
  for (const section of page.split('\n## ').slice(1)) {
    const [, wanted] = /\((\d+) cases\)/.exec(section) ?? []
    const cases = [...section.matchAll(/^\| \w+ \| (\d+) \|/gm)].map(([, count]) => Number(count))
    t.equal(cases.reduce((sum, count) => sum + count, 0), Number(wanted), section.split('\n', 1)[0]!)
  }
})
