import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { settings } from '../../platform/settings.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

const FOLDERS = ['api', 'cli', 'console', 'deploy', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema']

/** Source of everything that runs in production. */
const source = FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: ROOT }))
  .filter((file) => !/\.test\.ts$|\/testing\/|generated/.test(file))
  .map((file) => readFileSync(path.join(ROOT, file), 'utf8')).join('\n')

const [ownPart = '', httpPart = ''] = readFileSync(path.join(ROOT, 'docs/reference/errors.md'), 'utf8').split('\n## Codes of HTTP answers')

function findAll (text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, found = '']) => found)
}

/** Codes in the first cell of each row of a table. */
function listCodes (page: string, code: RegExp): string[] {
  return findAll(page, /^\| (`.*?) \|/gm).flatMap((cell) => findAll(cell, code))
}

t.test('the page has every error code of the source once, and no other', async (t) => {
  const names = new Set(findAll(source, /'(MILLRACE_[A-Z0-9_]+[A-Z0-9])'/g))
  const inSource = [...names].filter((name) => !Object.hasOwn(settings, name)).sort()

  t.ok(inSource.length > 40)
  t.same(listCodes(ownPart, /`(MILLRACE_\w+)`/g).sort(), inSource)
})

t.test('every error code has the same prefix', async (t) => {
  const codes = findAll(source, /(?:\bnew \w*Error|\bsuper)\(\s*'([A-Z0-9_]+)'/g)

  t.ok(codes.length > 40)
  t.same(codes.filter((code) => !code.startsWith('MILLRACE_')), [])
})

t.test('the page has the codes of all HTTP answers', async (t) => {
  const listed = listCodes(httpPart, /`(\w+)`/g)
  const answered = new Set([
    ...findAll(source, /new HttpError\([^']*'\w+',\s*'(\w+)'/g),
    ...findAll(source, /'((?:invalid|empty|incomplete)_[a-z0-9]+)', '[A-Z][^']+\.'/g)
  ])

  t.ok(answered.size > 20)
  t.same([...answered].filter((code) => !listed.includes(code)), [])
  t.same(listed.filter((code) => !source.includes(`'${code}'`)), [], 'and no other')
})
