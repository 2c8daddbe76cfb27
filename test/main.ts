/**
 * Runs the tests, and prints how long each file took and, at the end, each layer and the slowest files.
 *
 *     npm test               what every change runs: units, services, and the whole path once for each promise
 *     npm test -- PATH...    the tests of these files and folders alone
 *     npm run test:unit      the tests that need no service (`kinds.ts` finds them by their imports)
 *     npm run test:all       `npm test`, then the rest: `x.system.test.ts`
 *
 * Files share processes (`test-worker.ts`) and services (`support/shared-services.ts`). Exits with 1 when a test
 * failed. The output of each file is in `.tap/test-results/`.
 */
import { spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { ALONE, createTestKinds, EMBEDDED, EMBEDDED_CORE, EMBEDDED_SYSTEM, isSystemTest, listTests, TEST_KINDS } from './kinds.ts'
import { testEnvironment } from './support/environments.ts'
import { endSharedStack, startSharedServices, stopSharedServices } from './support/shared-services.ts'
import { ended, runTestFiles, type TestResult } from './test-pool.ts'
import { inSeconds, renderTimes } from './times.ts'

const ROOT = path.join(import.meta.dirname, '..')
const RESULTS = path.join(ROOT, '.tap', 'test-results')
/** Files at a time; while cores are idle, up to three times this number. */
const JOBS = Number(process.env.MILLRACE_TEST_JOBS ?? 3)
/** Lines of a failure that are printed where it happened; the whole is in the results. */
const MOST_LINES = 60

const { kindOf } = createTestKinds()
const paths = process.argv.slice(2)
const files = await chooseFiles()
const results: TestResult[] = []
const usesStack = (file: string): boolean => ['whole path', 'system'].includes(kindOf(file))
let awaitingStack = files.filter(usesStack).length

await buildRunner()
await rm(RESULTS, { recursive: true, force: true })
const needsServices = files.some((file) => kindOf(file) !== 'unit')
if (needsServices) await startSharedServices(process.pid)
await runTestFiles(files.map(describeFile), { jobs: JOBS, mostJobs: 3 * JOBS, results: RESULTS, onResult: printResult })
if (needsServices) await stopSharedServices(process.pid)

process.stdout.write(`\n${renderTimes(results, kindOf)}`)
const failed = results.filter(({ isPassed }) => !isPassed)
if (failed.length > 0) process.stdout.write(`\n${failed.length} of ${results.length} files failed:\n`)
for (const { file } of failed) process.stdout.write(`  ${file}\n`)
process.exitCode = failed.length === 0 && results.length > 0 ? 0 : 1

/** Once for an installation, the runner is built with the plugins that package.json names. */
async function buildRunner (): Promise<void> {
  const built = await readFile(new URL(import.meta.resolve('@tapjs/test/test-built')), 'utf8')
  const plugins = /^export const signature = `([^`]*)`/m.exec(built)?.[1]
  if (plugins?.includes('@tapjs/typescript') === false) return
  const code = await ended(spawn('tap', ['build'], { cwd: ROOT, stdio: 'inherit' }))
  if (code !== 0) process.exit(code)
}

/**
 * What takes longest begins first: the kinds in turn, and of a kind long files, on the whole. Chance moves each a bit,
 * so that no file counts on another.
 */
async function chooseFiles (): Promise<string[]> {
  const all = (await listTests()).filter(isChosen).map((file) => ({
    file,
    kind: TEST_KINDS.indexOf(kindOf(file)),
    weight: statSync(path.join(ROOT, file)).size * (0.5 + Math.random())
  }))
  return all.sort((a, b) => b.kind - a.kind || b.weight - a.weight).map(({ file }) => file)
}

function isChosen (file: string): boolean {
  const [first] = paths
  if (first === '--unit') return kindOf(file) === 'unit'
  if (first === '--system') return isSystemTest(file) || EMBEDDED_SYSTEM.includes(file)
  if (first !== undefined) return paths.some((each) => isBelow(file, path.relative(ROOT, each)))
  return !isSystemTest(file) && (!isBelow(file, EMBEDDED) || EMBEDDED_CORE.includes(file))
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

/** One line for each file, and the first failure of a file that failed. */
function printResult (result: TestResult): void {
  results.push(result)
  if (usesStack(result.file) && --awaitingStack === 0 && results.length < files.length) void endSharedStack(process.pid)
  process.stdout.write(`${(result.isPassed ? 'ok' : 'not ok').padEnd(6)} ${inSeconds(result.ms)}  ${result.file}\n`)
  if (result.isPassed) return
  const lines = result.output.split('\n')
  const first = Math.max(0, lines.findIndex((line) => /^ +not ok /.test(line)))
  process.stdout.write(`${lines.slice(first, first + MOST_LINES).join('\n')}\n`)
}
