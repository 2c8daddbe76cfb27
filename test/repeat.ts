/**
 * Runs the whole suite, or the files that are named, several times, each time in another random order (`main.ts`
 * shuffles the files of a kind), and looks after each run for what it left behind: processes, temporary files, files in
 * the tree. Ends at the first run that fails or leaves something, with exit code 1.
 *
 * `npm run test:repeat -- --times 10`. The output of run n, in the order of its files, is in `.tap/repeat/n.out`, what
 * it wrote to standard error in `.tap/repeat/n.err`.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Command } from 'commander'
import { readCount } from '../cli/read-arguments.ts'
import { findLeftovers, listTree } from './find-leftovers.ts'

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
