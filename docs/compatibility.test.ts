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
