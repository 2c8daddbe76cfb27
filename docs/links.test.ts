import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const ROOT = path.join(import.meta.dirname, '..')

/** Folders of the repository. What begins with one of them in backquotes is meant as a path. */
const FOLDERS = ['api', 'bench', 'chdb-server', 'cli', 'console', 'deploy', 'docs', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema', 'test']

const pages = ['*.md', ...FOLDERS.map((folder) => `${folder}/**/*.md`)].flatMap((pattern) => globSync(pattern, { cwd: ROOT }))

function read (page: string): string {
  return readFileSync(path.join(ROOT, page), 'utf8')
}

/** What a page says outside of its blocks of code. */
function prose (page: string): string {
  return read(page).replaceAll(/^```[^]*?^```/gm, '')
}

/** The anchors of a page, as GitHub makes them from its headings. */
function anchors (page: string): Set<string> {
  const headings = [...prose(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title)
  return new Set(headings.map((title) => title.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(' ', '-')))
}

/** Null when the link leads somewhere. */
function findFault (page: string, link: string): string | null {
  const [file = '', anchor] = link.split('#')
  const target = file === '' ? page : path.join(path.dirname(page), file)
  if (!existsSync(path.join(ROOT, target))) return `${page}: ${link}: no such file`
  if (anchor !== undefined && !anchors(target).has(anchor)) return `${page}: ${link}: no such heading`
  return null
}

t.test('every link of a page leads to a file or heading that is there', async (t) => {
  const faults = pages.flatMap((page) => [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^https?:/.test(link))
    .map((link) => findFault(page, link)))

  t.same(faults.filter((fault) => fault !== null), [])
})

/** What it exports looks like a path of it. */
const server = JSON.parse(readFileSync(path.join(ROOT, 'chdb-server/package.json'), 'utf8'))

t.test('every path that a page names is there', async (t) => {
  const paths = pages.flatMap((page) => [...prose(page).matchAll(/`([\w.-]+\/[\w./-]*)`/g)]
    .map(([, name = '']) => ({ page, name }))
    .filter(({ name }) => FOLDERS.includes(name.slice(0, name.indexOf('/'))) && !(name.replace('chdb-server', '.') in server.exports)))
  const missing = paths.filter(({ page, name }) => ![ROOT, path.join(ROOT, path.dirname(page))]
    .some((folder) => existsSync(path.join(folder, name))))

  t.ok(paths.length > 100, 'paths are found at all')
  t.same(missing.map(({ page, name }) => `${page}: ${name}`), [])
})

/** Sections of a page by their numbers: `4` and `4.2`. */
function sections (page: string): Set<string> {
  return new Set([...prose(page).matchAll(/^#+ (\d+(?:\.\d+)?) /gm)].map(([, number = '']) => number))
}

t.test('every page and section that a comment names is there', async (t) => {
  const sources = FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.{ts,js,sh,sql}`, { cwd: ROOT }))
  const cited = sources.flatMap((file) =>
    [...read(file).matchAll(/\b(docs\/[\w/-]+\.md)(?: (\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*))?/g)]
      .map(([text, page = '', numbers]) => ({ file, text, page, numbers: numbers?.split(/, | and | to /) ?? [] })))
  const faults = cited.filter(({ page, numbers }) =>
    !existsSync(path.join(ROOT, page)) || numbers.some((number) => !sections(page).has(number)))

  t.ok(cited.filter(({ numbers }) => numbers.length > 0).length > 25, 'sections are cited at all')
  t.same(faults.map(({ file, text }) => `${file}: ${text}`), [])
})

t.test('every file that a page names without its folder is there', async (t) => {
  const files = FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.{ts,sh,sql}`, { cwd: ROOT }))
  const names = new Set(files.map((file) => path.basename(file)))
  const named = pages.flatMap((page) => [...prose(page).matchAll(/`([a-z][\w.-]*\.(?:ts|sh|sql))`/g)]
    .map(([, name = '']) => ({ page, name })))

  t.same(named.filter(({ name }) => !names.has(name)).map(({ page, name }) => `${page}: ${name}`), [])
})

t.test('every file that a table names after its folder is below that folder', async (t) => {
  const named = pages.flatMap((page) => [...prose(page).matchAll(/^\|.*$/gm)].flatMap(([row]) => {
    let folder = ''
    return [...row.matchAll(/`([\w./-]+\/|[a-z][\w.-]*\.(?:ts|sh|sql))`/g)].flatMap(([, name = '']) => {
      if (!name.endsWith('/')) return folder === '' ? [] : [{ page, folder, name }]
      if (FOLDERS.includes(name.slice(0, name.indexOf('/')))) folder = name
      return []
    })
  }))
  const missing = named.filter(({ folder, name }) => globSync(`${folder}**/${name}`, { cwd: ROOT }).length === 0)

  t.ok(named.length > 30, 'files are found at all')
  t.same(missing.map(({ page, folder, name }) => `${page}: ${name} of ${folder}`), [])
})

t.test('the way of a batch through ingest names as many files as it says', async (t) => {
  const page = read('docs/reference/architecture.md')
  const [, said] = /through (\d+) files of `ingest\/`/.exec(page) ?? []
  const listed = [...page.matchAll(/^\| `ingest\/\w+\/` \| (.+) \|$/gm)].flatMap(([, files = '']) => files.split(', '))

  t.equal(listed.length, Number(said))
})

t.test('every page of docs is linked from the README, or from a page that is', async (t) => {
  const reached = new Set(['README.md'])
  for (const page of reached) {
    for (const [, link = ''] of prose(page).matchAll(/\]\(([^)\s#]+)/g)) {
      const target = path.join(path.dirname(page), link)
      if (pages.includes(target)) reached.add(target)
    }
  }

  t.same(pages.filter((page) => page.startsWith('docs/') && !reached.has(page)), [])
})

t.test('every script of npm that a page names is in package.json', async (t) => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const named = pages.flatMap((page) => [...read(page).matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => `${page}: ${name}`))

  t.same(named.filter((each) => !Object.hasOwn(scripts, each.slice(each.indexOf(': ') + 2))), [])
})
