/**
 * Runs the tests, and says at the end how long each kind took and which files took longest.
 *
 *     npm test               every test, and beside them lint, types and generated files
 *     npm test -- FILE...    these tests alone; arguments are those of `tap run`
 *     npm run test:unit      the tests that need no service (`kinds.ts` tells them from their imports), in one process
 *
 * Exits with 1 when a test or a check failed. In CI a few files that failed run a second time, alone; what passes then
 * is named as unsteady and does not fail the run (docs/decisions/0022-unsteady-tests-run-twice-in-ci.md).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { createTestKinds, listTests, UNIT_TESTS } from './kinds.ts'
import { tapEnvironment } from './support/environments.ts'
import { type CheckTime, inSeconds, readTestTimes, renderTimes } from './times.ts'

const ROOT = path.join(import.meta.dirname, '..')
/** Scripts of package.json. On a machine of one's own lint looks at what changed since its last run; a CI has none. */
const CHECKS = {
  lint: process.env.CI === undefined ? ['--cache', '--cache-strategy=content', '--cache-location=.tap/eslint-cache'] : [],
  typecheck: [],
  'generate:check': []
}

/** More failed files than this, of some 400, are no accident of a busy machine. */
const MOST_UNSTEADY = 8
/** Lines of a failure that are printed where it happened; the whole is told at the end. */
const MOST_LINES = 60

const startedAt = Date.now()
const { kindOf } = createTestKinds()
const [first, ...others] = process.argv.slice(2)
const isUnit = first === '--unit'
const isWholeSuite = first === undefined
const files = isUnit
  ? [UNIT_TESTS, ...others]
  : isWholeSuite ? [UNIT_TESTS, ...(await listTests()).filter((file) => kindOf(file) !== 'unit')] : process.argv.slice(2)
// The runner's reporters for people take a third of the time of the unit tests: for many files one line each will do.
const isBrief = (isWholeSuite || isUnit) && !files.some((arg) => arg.startsWith('--reporter'))

await buildRunner()
const tap = spawn('tap', ['run', ...files, ...isBrief ? ['--reporter=tap'] : []], {
  cwd: ROOT,
  stdio: ['inherit', isBrief ? 'pipe' : 'inherit', 'inherit'],
  env: { ...tapEnvironment(), ...isUnit ? { MILLRACE_TEST_NO_SERVICES: '1' } : {} }
})
const failed: string[] = []
if (tap.stdout !== null) printFiles(tap.stdout, (file) => failed.push(file))
// Many tests wait, so the checks run beside them; one after the other, so that they take one core at most.
const [firstCode, checks] = await Promise.all([ended(tap), isWholeSuite ? runChecks() : []])

if (isBrief && firstCode !== 0) await ended(spawn('tap', ['replay', '--reporter=terse'], { cwd: ROOT, stdio: 'inherit' }))
const mayRepeat = isWholeSuite && process.env.CI !== undefined && failed.length > 0 && failed.length <= MOST_UNSTEADY
const code = firstCode !== 0 && mayRepeat ? await repeatAlone(failed) : firstCode
process.stdout.write(`\n${renderTimes(await readTestTimes(path.join(ROOT, '.tap', 'test-results'), startedAt), kindOf, checks)}`)
for (const { name, output, code } of checks) if (code !== 0) process.stdout.write(`\nnpm run ${name} failed:\n${output}`)
process.exitCode = code === 0 && checks.every((check) => check.code === 0) ? 0 : code || 1

/** Once for an installation, the runner is built with the plugins that package.json names. */
async function buildRunner (): Promise<void> {
  const built = await readFile(new URL(import.meta.resolve('@tapjs/test/test-built')), 'utf8')
  const plugins = /^export const signature = `([^`]*)`/m.exec(built)?.[1]
  if (plugins?.includes('@tapjs/typescript') === false) return
  const code = await ended(spawn('tap', ['build'], { cwd: ROOT, stdio: 'inherit' }))
  if (code !== 0) process.exit(code)
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

/** One line for each file, with the first failure of a file that failed, and the sums of the run. */
function printFiles (results: Readable, onFailed: (file: string) => void): void {
  let failure: string[] = []
  let isInFailure = false
  // Of a file that failed as a whole (a crash, a time-out): its details come behind its line.
  let isAfterFailedFile = false
  createInterface({ input: results }).on('line', (line) => {
    if (line.startsWith(' ')) {
      if (isAfterFailedFile) process.stdout.write(`${line}\n`)
      isAfterFailedFile &&= line !== '  ...'
      // The subtests of a file come before its own line. A failed assertion is followed by its details, a failed
      // subtest by the number of those that failed.
      if (/^ +(?:not )?ok /.test(line)) isInFailure = line.trimStart().startsWith('not ok') && failure.length === 0
      if (isInFailure && failure.length < MOST_LINES) failure.push(line)
      return
    }
    const [, outcome, file, ms] = /^((?:not )?ok) \d+ - (\S+).* # time=([\d.]+)ms/.exec(line) ?? []
    if (file === undefined) {
      if (/^(# \{|not ok|Bail out)/.test(line)) process.stdout.write(`${line}\n`)
      return
    }
    process.stdout.write(`${outcome!.padEnd(6)} ${inSeconds(Number(ms))}  ${file}\n`)
    if (outcome === 'not ok') {
      if (failure.length > 0) process.stdout.write(`${failure.join('\n')}\n`)
      onFailed(file)
    }
    isAfterFailedFile = outcome === 'not ok'
    failure = []
    isInFailure = false
  })
}

/** Runs each file by itself; what fails now, with the machine to itself, fails the run. */
async function repeatAlone (files: readonly string[]): Promise<number> {
  let code = 0
  for (const file of files) {
    const again = await ended(spawn('tap', ['run', file, '--jobs=1'], { cwd: ROOT, stdio: 'inherit', env: tapEnvironment() }))
    process.stdout.write(again === 0
      ? `\nUNSTEADY: ${file} failed beside others (above) and passed alone. Find out what it waits for.\n`
      : `\nnot ok: ${file} failed twice\n`)
    code ||= again
  }
  return code
}

/** Ends with the signals that end this process. */
async function ended (child: ChildProcess): Promise<number> {
  const passOn = (signal: NodeJS.Signals): void => { child.kill(signal) }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, passOn)
  const [code] = await once(child, 'exit') as [number | null]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, passOn)
  return code ?? 1
}
