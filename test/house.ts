/**
 * Measures the tree and holds it below its limits; part of `npm run lint`. Whoever makes a figure smaller lowers its
 * limit in the same commit; it rises only where a defect cannot be mended in less, and the commit says which: in five
 * days of November 2026 the source grew from 35,000 to 80,000 lines, and no review noticed, because each change was
 * small.
 *
 *     node test/house.ts [--list]     # --list: also what was counted, name by name
 */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'

const ROOT = path.join(import.meta.dirname, '..')
const FOLDERS = ['api', 'chdb-server', 'cli', 'console', 'deploy', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema']
const LONGEST_FUNCTION = 80
/** Reads as translated; say it with a noun and a precise verb instead. */
const PHRASE = / (is|are) none\b|\btold\b|\bwhom\b|\bso many\b|\bby now\b|\bwhat is [a-z ]* of /i

/** Entry points, which every tier has. */
const COMMON_NAMES = new Set(['main.ts', 'app.ts'])

export interface House {
  /** Lines of what runs: no tests, no benchmarks, nothing generated. */
  lines: number
  /** Of the package chdb-server, which is not in `lines`. */
  serverLines: number
  platformLines: number
  trackedFiles: number
  /** Groups of files that import each other in a circle, types included. */
  circles: string[][]
  /** File names that more than one source file has. */
  repeatedNames: string[]
  /** Functions longer than 80 lines: `file:line name`. */
  longFunctions: string[]
  /** Non-null assertions, `a!`. */
  assertions: number
  /** Type assertions, `a as B`, without `as const`. */
  casts: number
  /** Lines of code and text, tests included, with such a phrase: `file:line text`. */
  phrases: string[]
}

const LIMITS = {
  lines: 89_620,
  serverLines: 5_525,
  platformLines: 3_923,
  trackedFiles: 1_752,
  circles: 0,
  repeatedNames: 0,
  longFunctions: 0,
  assertions: 151,
  casts: 262,
  phrases: 51
} satisfies Record<keyof House, number>

/** Reads each source file of `root` once. `files` are paths from there. */
export function measureHouse (root: string, files: readonly string[]): House {
  const sources = files.filter(isSource)
  const house: House = {
    lines: 0,
    serverLines: 0,
    platformLines: 0,
    trackedFiles: files.length,
    circles: [],
    repeatedNames: [],
    longFunctions: [],
    assertions: 0,
    casts: 0,
    phrases: files.filter((file) => /(?<!\.generated)\.(tsx?|sql|md)$/.test(file)).flatMap((file) => findPhrases(root, file))
  }
  const imports = new Map<string, string[]>()
  for (const file of sources) {
    const text = readFileSync(path.join(root, file), 'utf8')
    const lines = text.split('\n').length - 1
    if (file.startsWith('chdb-server/')) house.serverLines += lines
    else house.lines += lines
    if (file.startsWith('platform/')) house.platformLines += lines
    if (/\.tsx?$/.test(file)) imports.set(file, readModule(file, text, house))
  }
  house.circles = findCircles(imports)
  house.repeatedNames = [...Map.groupBy([...imports.keys()], (file) => path.posix.basename(file))]
    .filter(([name, same]) => same.length > 1 && !COMMON_NAMES.has(name))
    .map(([name, same]) => `${name}: ${same.join(' ')}`)
  return house
}

function findPhrases (root: string, file: string): string[] {
  return readFileSync(path.join(root, file), 'utf8').split('\n')
    .flatMap((line, index) => PHRASE.test(line) ? [`${file}:${index + 1} ${line.trim()}`] : [])
}

function isSource (file: string): boolean {
  return FOLDERS.some((folder) => file.startsWith(`${folder}/`)) && /\.(tsx?|js|css|sql)$/.test(file) &&
    !/\.(test|bench)\.ts$|\.generated\.|(^|\/)testing\//.test(file)
}

/** Adds what the file has to `house`; returns the files that it imports. */
function readModule (file: string, text: string, house: House): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line + 1
  const visit = (node: ts.Node): void => {
    if (ts.isNonNullExpression(node)) house.assertions++
    if (ts.isAsExpression(node) && node.type.getText() !== 'const') house.casts++
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const first = lineOf(node.getStart())
      if (lineOf(node.end) - first + 1 > LONGEST_FUNCTION) house.longFunctions.push(`${file}:${first} ${node.name?.getText() ?? ''}`)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName)
    .filter((name) => name.startsWith('.')).map((name) => path.posix.join(path.posix.dirname(file), name))
}

/** Strongly connected components of more than one file (R. Tarjan, SIAM J. Comput. 1, 1972). */
export function findCircles (imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>()
  const open: string[] = []
  const circles: string[][] = []
  const visit = (file: string): number => {
    const own = order.size
    let low = own
    order.set(file, own)
    open.push(file)
    for (const other of imports.get(file) ?? []) {
      if (!imports.has(other)) continue
      const seen = order.get(other)
      if (seen === undefined) low = Math.min(low, visit(other))
      else if (open.includes(other)) low = Math.min(low, seen)
    }
    if (low === own) {
      const circle = open.splice(open.indexOf(file))
      if (circle.length > 1) circles.push(circle)
    }
    return low
  }
  for (const file of imports.keys()) if (!order.has(file)) visit(file)
  return circles
}

/** What git tracks but for hidden files; without git, which a machine that runs the tests need not have. */
export function listFiles (root: string): string[] {
  const ignored = readFileSync(path.join(root, '.gitignore'), 'utf8').split('\n').filter((line) => /^[^#]/.test(line))
    .map((line) => line.replace(/\/$/, '')).map((line) => line.includes('/') ? line : `**/${line}`)
  return globSync('**/*', { cwd: root, exclude: ignored, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
}

if (import.meta.main) {
  const house = measureHouse(ROOT, listFiles(ROOT))
  for (const key of Object.keys(LIMITS) as Array<keyof House>) {
    const value = house[key]
    const count = typeof value === 'number' ? value : value.length
    const isBelow = count <= LIMITS[key]
    if (!isBelow) process.exitCode = 1
    console.log(`${key.padEnd(16)} ${String(count).padStart(7)}  limit ${LIMITS[key]}${isBelow ? '' : '  EXCEEDED'}`)
    if (typeof value !== 'number' && (!isBelow || process.argv.includes('--list'))) {
      for (const entry of value) console.log(`  ${Array.isArray(entry) ? entry.join(' ') : entry}`)
    }
  }
}
