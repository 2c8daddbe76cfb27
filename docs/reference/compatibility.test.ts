import { readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { listShownTests, MATRIX, renderTables } from '../../test/sdk/compatibility-matrix.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

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

/** Whether a test has a title: as it stands, or as a template with parts that stand there, too. */
function hasTitle (source: string, title: string): boolean {
  if (source.includes(title)) return true
  return [...source.matchAll(/`([^`\n]*\$\{.*\}[^`\n]*)`/g)].some(([, template = '']) => {
    const pattern = template.split(/\$\{(?:[^{}])*\}/).map((text) => text.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')).join('(.+)')
    const [, ...parts] = new RegExp(`^${pattern}$`).exec(title) ?? []
    return parts.length > 0 && parts.every((part) => source.includes(part))
  })
}

t.test('every case of the harness of the SDKs is shown by a test that exists, or is one of a client alone', async (t) => {
  const page = readFileSync(path.join(import.meta.dirname, 'contract', 'sdk-duties.md'), 'utf8')
  const sourceOf = (file: string): string =>
    readFileSync(path.join(ROOT, file.includes('/') ? file : `test/sdk/duties/${file}`), 'utf8')
  const shown = [...page.matchAll(/`([\w/.-]+\.test\.ts)` "([^"]+)"/g)].map(([, file = '', title = '']) => ({ file, title }))

  t.ok(shown.length > 150)
  t.same(shown.filter(({ file, title }) => !hasTitle(sourceOf(file), title)), [])
  for (const section of page.split('\n## ').slice(1)) {
    const [, wanted = 0] = /\((\d+) cases\)/.exec(section) ?? []
    const cases = [...section.matchAll(/^\| \w+ \| (.*) \|$/gm)].map(([, by = '']) => by).filter((by) => by !== 'shown by')
    t.equal(cases.length, Number(wanted), section.split('\n', 1)[0]!)
    t.same(cases.filter((by) => !/^`[\w/-]+\.test\.ts` "[^"]+"$|^only of a client: .{20,}$/.test(by)), [])
    const own = cases.filter((by) => /^`[\w-]+\.test/.test(by))
    t.equal(new Set(own).size, own.length, 'none of those made for a case is named twice')
  }
})
