import { globSync, readFileSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { settings } from '../../platform/settings.ts'
import { listShownTests, MATRIX, renderLists } from '../../test/sdk/compatibility-matrix.ts'
import { HARNESS_CASES } from '../../test/sdk/duties/harness-cases.ts'

interface PackageJson {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

async function readPackageJson (): Promise<PackageJson> {
  return JSON.parse(await readFile(path.join(import.meta.dirname, '..', '..', 'package.json'), 'utf8')) as PackageJson
}

/** Packages of the table: name, and what it is for. */
async function readListed (): Promise<[name: string, purpose: string][]> {
  const page = await readFile(path.join(import.meta.dirname, 'dependencies.md'), 'utf8')
  const section = page.slice(page.indexOf('## Packages'), page.indexOf('## Written by hand'))
  return [...section.matchAll(/^\| (`.+?`) \| (.*) \|$/gm)].flatMap(([, names = '', purpose = '']) =>
    findAll(names, /`([^`]+)`/g).map((name): [string, string] => [name, purpose]))
}

t.test('each package is listed once, with what it is for', async (t) => {
  const { dependencies, devDependencies, optionalDependencies } = await readPackageJson()
  const names = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies }).sort()
  const listed = await readListed()

  t.same(listed.map(([name]) => name).sort(), names)
  t.same(listed.filter(([, purpose]) => purpose.trim() === ''), [])
})

t.test('versions are exact', async (t) => {
  const { dependencies, devDependencies, optionalDependencies } = await readPackageJson()
  const versions = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })

  t.same(versions.filter(([, version]) => !/^(?:npm:[@\w/-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)), [])
})

t.test('the lockfile has every package for every platform, without which npm ci refuses it', async (t) => {
  const lock = JSON.parse(await readFile(path.join(import.meta.dirname, '..', '..', 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>
  }
  /** A package finds another in its own folder of packages, or in that of a folder above. */
  const isLocked = (from: string, name: string): boolean => {
    for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/')))) {
      if (`${folder === '' || folder.endsWith('/') ? folder : `${folder}/`}node_modules/${name}` in lock.packages) return true
      if (folder === '') return false
    }
  }
  const needed = Object.entries(lock.packages).flatMap(([from, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => ({ from, name })))

  t.ok(needed.length > 20)
  t.same(needed.filter(({ from, name }) => !isLocked(from, name)), [])
})

const ROOT = path.join(import.meta.dirname, '..', '..')
const SDKS = path.join(import.meta.dirname, 'contract', 'sdks.md')

t.test('the lists of the page are those of the matrix, with the versions that are installed', async (t) => {
  const page = readFileSync(SDKS, 'utf8')

  t.equal(renderLists(page), page, 'npm run test:sdks makes them')
  t.match(page, /<!-- unmodified:start -->\n- `[^]+<!-- recorded:start -->\n- \[/)
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
  const page = readFileSync(SDKS, 'utf8')
  const duties = path.join(ROOT, 'test', 'sdk', 'duties')
  const sources = new Map(readdirSync(duties).map((file) => [file, readFileSync(path.join(duties, file), 'utf8')]))
  const suites = Object.entries(HARNESS_CASES).map(([suite, groups]) =>
    ({ suite, cases: Object.values(groups).flatMap((cases) => Object.values(cases)) }))

  for (const { suite, cases } of suites) {
    const tests = cases.flatMap((by) => 'onlyClient' in by ? [] : [by])
    t.match(page, `| ${suite} | ${cases.length} |`)
    t.same(tests.filter(([file, title]) => !hasTitle(sources.get(file) ?? '', title)), [])
    t.equal(new Set(tests.map(([, title]) => title)).size, tests.length, 'no test shows two cases of a suite')
    t.same(cases.filter((by) => 'onlyClient' in by && by.onlyClient.length < 20), [])
  }
})

const FOLDERS = ['api', 'chdb-server', 'cli', 'console', 'deploy', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema']

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
