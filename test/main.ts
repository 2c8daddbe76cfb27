/**
 * Runs the tests, and says at the end how long each kind took and which files took longest.
 *
 *     npm test               every test but the long ones of the embedded ClickHouse server, and lint, types and
 *                            generated files; those, too, with `MILLRACE_TEST_EMBEDDED=1`
 *     npm test -- PATH...    the tests of these files and folders alone
 *     npm run test:unit      the tests that need no service (`kinds.ts` tells them from their imports)
 *
 * Files share processes (`test-worker.ts`) and services (`support/shared-services.ts`). Exits with 1 when a test or a
 * check failed. The output of each file is in `.tap/test-results/`.
 */
import { spawn } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { ALONE, createTestKinds, EMBEDDED, EMBEDDED_CORE, listTests, TEST_KINDS } from './kinds.ts'
import { testEnvironment } from './support/environments.ts'
import { startSharedServices, stopSharedServices } from './support/shared-services.ts'
import { ended, runTestFiles, type TestResult } from './test-pool.ts'
import { type CheckTime, inSeconds, renderTimes } from './times.ts'

const ROOT = path.join(import.meta.dirname, '..')
const RESULTS = path.join(ROOT, '.tap', 'test-results')
/** Files at a time; as many more begin while cores are idle. */
const JOBS = Number(process.env.MILLRACE_TEST_JOBS ?? 3)
/** Scripts of package.json. On a machine of one's own lint looks at what changed since its last run; a CI has none. */
const CHECKS = {
  lint: process.env.CI === undefined ? ['--cache', '--cache-strategy=content', '--cache-location=.tap/eslint-cache'] : [],
  typecheck: [],
  'generate:check': []
}
/** Lines of a failure that are printed where it happened; the whole is in the results. */
const MOST_LINES = 60

const { kindOf } = createTestKinds()
const paths = process.argv.slice(2)
const isUnit = paths[0] === '--unit'
const isWholeSuite = paths.length === 0
const files = await chooseFiles()
const results: TestResult[] = []

await buildRunner()
await rm(RESULTS, { recursive: true, force: true })
const needsServices = files.some((file) => kindOf(file) !== 'unit')
if (needsServices) await startSharedServices(process.pid)
// Many tests wait, so the checks run beside them; one after the other, so that they take one core at most.
const [, checks] = await Promise.all([
  runTestFiles(files.map(describeFile), { jobs: JOBS, mostJobs: 2 * JOBS, results: RESULTS, onResult: printResult }),
  isWholeSuite ? runChecks() : []
])
if (needsServices) await stopSharedServices(process.pid)

process.stdout.write(`\n${renderTimes(results, kindOf, checks)}`)
const failed = results.filter(({ isPassed }) => !isPassed)
if (failed.length > 0) process.stdout.write(`\n${failed.length} of ${results.length} files failed:\n`)
for (const { file } of failed) process.stdout.write(`  ${file}\n`)
for (const { name, output, code } of checks) if (code !== 0) process.stdout.write(`\nnpm run ${name} failed:\n${output}`)
process.exitCode = failed.length === 0 && results.length > 0 && checks.every(({ code }) => code === 0) ? 0 : 1

/** Once for an installation, the runner is built with the plugins that package.json names. */
async function buildRunner (): Promise<void> {
  const built = await readFile(new URL(import.meta.resolve('@tapjs/test/test-built')), 'utf8')
  const plugins = /^export const signature = `([^`]*)`/m.exec(built)?.[1]
  if (plugins?.includes('@tapjs/typescript') === false) return
  const code = await ended(spawn('tap', ['build'], { cwd: ROOT, stdio: 'inherit' }))
  if (code !== 0) process.exit(code)
}

/** What takes longest begins first; within a kind the order is random, so that no file counts on another. */
async function chooseFiles (): Promise<string[]> {
  const all = (await listTests())
    .map((file) => ({ file, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ file }) => file)
  const chosen = isWholeSuite
    ? all.filter((file) => process.env.MILLRACE_TEST_EMBEDDED === '1' || !isBelow(file, EMBEDDED) || EMBEDDED_CORE.includes(file))
    : isUnit ? all.filter((file) => kindOf(file) === 'unit') : all.filter((file) => paths.some((each) => isBelow(file, path.relative(ROOT, each))))
  return chosen.sort((a, b) => TEST_KINDS.indexOf(kindOf(b)) - TEST_KINDS.indexOf(kindOf(a)))
}

function isBelow (file: string, folder: string): boolean {
  return file === folder || file.startsWith(`${folder}/`) || folder === ''
}

function describeFile (file: string) {
  const isService = kindOf(file) !== 'unit'
  return {
    file,
    group: ALONE.includes(file) ? null : isService ? 'services' : 'unit',
    env: isService ? testEnvironment() : { ...testEnvironment(), MILLRACE_TEST_NO_SERVICES: '1' }
  }
}

async function runChecks (): Promise<(CheckTime & { output: string, code: number })[]> {
  const results = []
  for (const [name, args] of Object.entries(CHECKS)) {
    const startedAt = performance.now()
    const child = spawn('npm', ['run', '--silent', name, '--', ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
    const [code, ...output] = await Promise.all([ended(child), text(child.stdout), text(child.stderr)])
    results.push({ name, ms: performance.now() - startedAt, code, output: output.join('') })
  }
  return results
}

/** One line for each file, and the first failure of a file that failed. */
function printResult (result: TestResult): void {
  results.push(result)
  process.stdout.write(`${(result.isPassed ? 'ok' : 'not ok').padEnd(6)} ${inSeconds(result.ms)}  ${result.file}\n`)
  if (result.isPassed) return
  const lines = result.output.split('\n')
  const first = Math.max(0, lines.findIndex((line) => /^ +not ok /.test(line)))
  process.stdout.write(`${lines.slice(first, first + MOST_LINES).join('\n')}\n`)
}
