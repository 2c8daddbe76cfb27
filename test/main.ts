/**
 * Runs the tests, and says at the end how long each kind took and which files took longest.
 *
 *     npm test               every test, and beside them lint, types and generated files
 *     npm test -- FILE...    these tests alone; arguments are those of `tap run`
 *     npm run test:unit      the tests that need no service (`kinds.ts` tells them from their imports)
 *
 * Exits with 1 when a test or a check failed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { glob, readFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { createTestKinds } from './kinds.ts'
import { tapEnvironment } from './support/environments.ts'
import { type CheckTime, inSeconds, readTestTimes, renderTimes } from './times.ts'

const ROOT = path.join(import.meta.dirname, '..')
/** Scripts of package.json. On a machine of one's own lint looks at what changed since its last run; a CI has none. */
const CHECKS = {
  lint: process.env.CI === undefined ? ['--cache', '--cache-strategy=content', '--cache-location=.tap/eslint-cache'] : [],
  typecheck: [],
  'generate:check': []
}

const startedAt = Date.now()
const { kindOf } = createTestKinds()
const [first, ...others] = process.argv.slice(2)
const isUnit = first === '--unit'
const args = isUnit ? [...await listUnitTests(), ...others] : process.argv.slice(2)
const isWholeSuite = args.length === 0
// The runner's reporters for people take a third of the time of the unit tests: for many files one line each will do.
const isBrief = (isWholeSuite || isUnit) && !args.some((arg) => arg.startsWith('--reporter'))

await buildRunner()
const tap = spawn('tap', ['run', ...args, ...isBrief ? ['--reporter=tap'] : []], {
  cwd: ROOT,
  stdio: ['inherit', isBrief ? 'pipe' : 'inherit', 'inherit'],
  env: { ...tapEnvironment(), ...isUnit ? { MILLRACE_TEST_NO_SERVICES: '1' } : {} }
})
if (tap.stdout !== null) printFiles(tap.stdout)
// Many tests wait, so the checks run beside them; one after the other, so that they take one core at most.
const [code, checks] = await Promise.all([ended(tap), isWholeSuite ? runChecks() : []])

if (isBrief && code !== 0) await ended(spawn('tap', ['replay', '--reporter=terse'], { cwd: ROOT, stdio: 'inherit' }))
process.stdout.write(`\n${renderTimes(await readTestTimes(path.join(ROOT, '.tap', 'test-results'), startedAt), kindOf, checks)}`)
for (const { name, output, code } of checks) if (code !== 0) process.stdout.write(`\nnpm run ${name} failed:\n${output}`)
process.exitCode = code === 0 && checks.every((check) => check.code === 0) ? 0 : code || 1

async function listUnitTests (): Promise<string[]> {
  const files = await Array.fromAsync(glob('**/*.test.ts', {
    cwd: ROOT, exclude: (name) => name === 'node_modules' || name.startsWith('.')
  }))
  return files.filter((file) => kindOf(file) === 'unit')
}

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

/** One line for each file, and the sums of the run. */
function printFiles (results: Readable): void {
  createInterface({ input: results }).on('line', (line) => {
    const [, outcome, file, ms] = /^((?:not )?ok) \d+ - (\S+).* # time=([\d.]+)ms/.exec(line) ?? []
    if (file !== undefined) process.stdout.write(`${outcome!.padEnd(6)} ${inSeconds(Number(ms))}  ${file}\n`)
    else if (/^(# \{|not ok|Bail out)/.test(line)) process.stdout.write(`${line}\n`)
  })
}

/** Ends with the signals that end this process. */
async function ended (child: ChildProcess): Promise<number> {
  const passOn = (signal: NodeJS.Signals): void => { child.kill(signal) }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, passOn)
  const [code] = await once(child, 'exit') as [number | null]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, passOn)
  return code ?? 1
}
