/**
 * Runs files of tests one after the other in this process, as its parent sends their names: loading the runner, the
 * sources and their packages again for each of some 400 files took longer than most of their assertions.
 *
 * Each file gets a test of its own as the `t` that it imports, so that what it opens is closed at its end, and a
 * failure names it. The environment is restored after each file; what else a file changes for its process (signals, a
 * global) it puts back.
 *
 * Prints TAP, in which every file is a subtest. Ends when the parent disconnects, or at an error that nobody caught:
 * the file has failed then, and the next one gets another process.
 */
import { once } from 'node:events'
import module from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import type { Test } from 'tap'
import { shareProcess } from './support/process-end.ts'
import { FILE_TIMEOUT_MS } from './test-pool.ts'

const ROOT = path.join(import.meta.dirname, '..')
/** Time to close what files share. */
const END_MS = 20_000

/** What is drawn by chance is the same in every run, so that a run says something of a change; long runs draw anew. */
if (process.env.MILLRACE_TEST_LONG === undefined) fc.configureGlobal({ seed: 20_261_126 })

/**
 * Instead of `async-hook-domain`, which follows every promise and handle to tell the runner which of several tests has
 * thrown: that took a fifth of the CPU of a worker.
 */
const NO_DOMAINS = 'export class Domain { constructor (onerror) { this.onerror = onerror } destroy () {} }'

// The `t` of a test file is the test of that file. Whatever else asks for the runner gets the one of the process.
module.registerHooks({
  resolve (specifier, context, next) {
    if (specifier === 'async-hook-domain') return { url: `data:text/javascript,${encodeURIComponent(NO_DOMAINS)}`, shortCircuit: true }
    if (specifier !== 'tap' || context.parentURL?.endsWith('.test.ts') !== true) return next(specifier, context)
    const source = `export default globalThis.currentTestOfWorker() // ${context.parentURL}`
    return { url: `data:text/javascript,${encodeURIComponent(source)}`, shortCircuit: true }
  }
})

process.on('uncaughtExceptionMonitor', ({ stack }) => {
  // The code under test looks after its own.
  if (process.listenerCount('uncaughtException') > 0) return
  process.stdout.write(`    not ok - nobody caught: ${String(stack)}\n`)
  process.exit(1)
})

// Behind the hooks, which are for what it imports, too.
const { default: t } = await import('tap')
/** Of the file that is running. */
let current: Test = t
Object.assign(globalThis, { currentTestOfWorker: () => current })

const closeShared = shareProcess()
t.setTimeout(0)
// With a teardown of its own, the runner ends the process as soon as it is idle, and no further file would run.
Object.assign(t, {
  teardown () { throw new Error('only the test of a file has a teardown: pass its `t` to what imports the runner itself') }
})
// The runner lets go of the channel to the parent, and would end when it has nothing to do.
const alive = setInterval(() => {}, 2 ** 30)
process.on('message', (file: string) => { void runFile(file) })
process.once('disconnect', () => { void end() })

async function runFile (file: string): Promise<void> {
  // For `ps`, of a machine that is busy or a run that is stuck.
  process.title = file
  const environment = { ...process.env }
  await t.test(file, { timeout: FILE_TIMEOUT_MS }, async (t) => {
    current = t
    await import(pathToFileURL(path.join(ROOT, file)).href)
    // A failure is in the output.
  }).catch(() => {})
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name]
  Object.assign(process.env, environment)
}

async function end (): Promise<void> {
  clearInterval(alive)
  // The parent may have been killed in the middle of a file.
  setTimeout(() => process.exit(1), END_MS).unref()
  await closeShared()
  t.end()
  await once(t, 'end')
  process.exit()
}
