/**
 * Runs the whole suite, or the files that are named, several times, each time in another random order (`main.ts`
 * shuffles the files of a kind), and looks after each run for what it left behind: processes, temporary files, files in
 * the tree. Ends at the first run that fails or leaves something, with exit code 1.
 *
 * `npm run test:repeat -- --times 10`. The output of run n, in the order of its files, is in `.tap/repeat/n.out`, what
 * it wrote to standard error in `.tap/repeat/n.err`.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { Command } from 'commander'
import { readCount } from '../cli/read-arguments.ts'
import { waitFor } from './support/wait-for.ts'

const ROOT = path.join(import.meta.dirname, '..')
const LOGS = path.join(ROOT, '.tap', 'repeat')

const program = new Command('npm run test:repeat --')
  .description('Runs the suite several times in random order, and looks after each run for what it left behind.')
  .argument('[file...]', 'only these files (default: all)')
  .option('--times <number>', 'how often', readCount, 10)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()
const { times } = program.opts<{ times: number }>()

await rm(LOGS, { recursive: true, force: true })
await mkdir(LOGS, { recursive: true })

process.stdout.write('run  seconds  result\n')
for (let run = 1; run <= times; run++) {
  const { seconds, code, leftovers } = await runSuite(run)
  const isGood = code === 0 && leftovers.length === 0
  const result = isGood ? 'passed' : 'FAILED'
  process.stdout.write(`${String(run).padStart(3)}  ${String(seconds).padStart(7)}  ${result}\n`)
  for (const leftover of leftovers) process.stdout.write(`     left behind: ${leftover}\n`)
  if (!isGood) {
    process.exitCode = 1
    break
  }
}

async function runSuite (run: number) {
  const startedAt = performance.now()
  const treeBefore = await listTree(ROOT)
  // A folder of its own, so that whatever is in it afterwards is of this run.
  const temporary = await mkdtemp(path.join(tmpdir(), 'repeat-'))
  // Like the folder that it stands for: some tests start processes as another user.
  await chmod(temporary, 0o1777)
  const tests = spawn(process.execPath, [path.join(import.meta.dirname, 'main.ts'), ...program.args], {
    cwd: ROOT,
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const passOn = (signal: NodeJS.Signals): void => { tests.kill(signal) }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, passOn)
  tests.stdout.pipe(createWriteStream(path.join(LOGS, `${run}.out`)))
  tests.stderr.pipe(createWriteStream(path.join(LOGS, `${run}.err`)))
  const [code] = await once(tests, 'close') as [number | null]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, passOn)
  const leftovers = await findLeftovers({ temporary, root: ROOT, treeBefore })
  await rm(temporary, { recursive: true, force: true })
  return {
    seconds: Math.round((performance.now() - startedAt) / 1000),
    code,
    leftovers
  }
}

/** A stopped process may still be shutting down; after this long it counts as left behind. */
const PATIENCE_MS = 2000

/** Caches that packages keep in the temporary folder on purpose. */
const CACHES = ['node-compile-cache', 'v8-compile-cache-0', 'jiti']

/**
 * What a run of tests left behind: processes (a listening port belongs to one), temporary files, files in the tree.
 *
 * @param run.temporary  The temporary folder that the run had for itself.
 * @param run.treeBefore  `listTree` before it.
 * @returns one line each; empty when nothing was left.
 */
async function findLeftovers (
  run: { temporary: string, root: string, treeBefore: string[] }
): Promise<string[]> {
  await waitFor(async () => (await listProcesses(run.temporary)).length === 0, { timeoutMs: PATIENCE_MS, everyMs: 100 })
    .catch(() => {})
  const processes = await listProcesses(run.temporary)
  const files = (await readdir(run.temporary)).filter((name) => !CACHES.includes(name))
  const tree = await listTree(run.root)
  return [
    ...processes,
    ...files.map((name) => `temporary file ${name}`),
    ...tree.filter((line) => !run.treeBefore.includes(line)).map((line) => `in the tree: ${line}`)
  ]
}

/** Files of the tree that are new or changed, ignored ones of the services of tests included. */
async function listTree (root: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('git', ['status', '--porcelain'], { cwd: root })
  const services = (await readdir(`${root}/.tap`).catch(() => [])).filter((name) => /^services-/.test(name))
  return [...stdout.split('\n').filter((line) => line !== ''), ...services]
}

/**
 * Processes whose environment or command names the folder, which every process of the run inherits as TMPDIR, however
 * far it detaches itself. Reads /proc: other systems than Linux show none.
 */
async function listProcesses (folder: string): Promise<string[]> {
  const found: string[] = []
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  for (const pid of pids) {
    try {
      const command = await readFile(`/proc/${pid}/cmdline`, 'latin1')
      const environment = await readFile(`/proc/${pid}/environ`, 'latin1')
      // A zombie has neither any more; it waits for its parent only.
      if ((command + environment).includes(folder)) found.push(`process ${pid}: ${command.replaceAll('\0', ' ')}`)
    } catch {
      // It ended while it was looked at, or belongs to somebody else.
    }
  }
  return found
}
