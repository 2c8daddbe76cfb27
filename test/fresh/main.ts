/**
 * `npm run check:fresh`: the commands of the README on machines that have nothing but Debian, Node and npm, as a user
 * without rights, in the last commit of this clone: `npm install && npm start` with a first event, the same of the
 * package, and `npm test`.
 *
 *     npm run check:fresh                                            # Debian 12 and 13; an hour
 *     npm run check:fresh -- --suite trixie --tests test/package     # one of them, and some of the tests
 *     npm run check:fresh -- --suite noble --mirror http://archive.ubuntu.com/ubuntu
 *
 * Root on Linux, with podman, runc and debootstrap. Images are made once and kept in `.tap/fresh/`.
 */
import { execFileSync } from 'node:child_process'
import { chownSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { Command } from 'commander'
import { ROOT, tryFirstSession } from '../package/installed-package.ts'
import { type BareMachine, makeBareMachine, USER } from './bare-machine.ts'

interface Options {
  suite: string[]
  mirror?: string
  node?: string
  tests?: string[]
}

const { suite: suites, mirror, node, tests } = new Command('check:fresh')
  .option('--suite <names...>', 'releases of Debian or Ubuntu', ['bookworm', 'trixie'])
  .option('--mirror <url>', 'where their packages are, as the one of this machine may not have them')
  .option('--node <file>', 'a Node with npm beside it, in place of that of this machine')
  .option('--tests <paths...>', 'which tests run, in place of all')
  .parse().opts<Options>()

/** The first start also fetches nats-server, on a machine that may be busy. */
const READY_MS = 300_000

const folder = path.join(ROOT, '.tap', 'fresh')
mkdirSync(folder, { recursive: true })
const failures: string[] = []
for (const suite of suites) {
  const clone = makeFolder('clone-')
  const app = makeFolder('app-')
  try {
    const machine = await makeBareMachine({ suite, mirror, node, folder })
    execFileSync('git', ['clone', '--quiet', ROOT, clone])
    execFileSync('chown', ['-R', `${USER}:${USER}`, clone, app])
    if (!await check(`${suite}: npm install`, async () => await install(machine, clone))) continue
    await check(`${suite}: npm start`, async () => await start(machine, clone, 'npm start'))
    await check(`${suite}: npm pack`, async () => {
      await mustRun(machine, clone, 'npm pack')
      const packed = globSync('millrace-*.tgz', { cwd: clone })[0] ?? ''
      renameSync(path.join(clone, packed), path.join(app, packed))
      await mustRun(machine, app, `npm install ./${packed}`)
    })
    await check(`${suite}: npx millrace start`, async () => await start(machine, app, 'npx millrace start'))
    await check(`${suite}: npm test`, async () => {
      await mustRun(machine, clone, ['npm test', ...tests === undefined ? [] : ['--', ...tests]].join(' '))
    })
  } catch (error) {
    print(`${suite}: ${String(error)}`)
    failures.push(suite)
  } finally {
    for (const each of [clone, app]) rmSync(each, { recursive: true, force: true })
  }
}
print(failures.length === 0 ? 'everything runs' : `failed: ${failures.join(', ')}`)
process.exitCode = failures.length === 0 ? 0 : 1

/** One that the user of the machine can enter. */
function makeFolder (prefix: string): string {
  const made = mkdtempSync(path.join(folder, prefix))
  chownSync(made, USER, USER)
  return made
}

async function check (name: string, work: () => Promise<void>): Promise<boolean> {
  const startedAt = performance.now()
  const problem = await work().then(() => '', String)
  if (problem !== '') failures.push(name)
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  print(problem === '' ? `ok ${name}, ${seconds} s` : `not ok ${name}, ${seconds} s\n${problem}`)
  return problem === ''
}

async function mustRun (machine: BareMachine, where: string, command: string): Promise<string> {
  const { code, output } = await machine.run(where, command)
  if (code !== 0) throw new Error(`${command}: exit code ${code}`)
  return output
}

/** A warning in the first lines that somebody sees of Millrace is a question. */
async function install (machine: BareMachine, where: string): Promise<void> {
  const warnings = (await mustRun(machine, where, 'npm install')).match(/^npm warn .*$/gm) ?? []
  if (warnings.length > 0) throw new Error(`npm warned:\n${warnings.join('\n')}`)
}

async function start (machine: BareMachine, where: string, command: string): Promise<void> {
  // What ends first is npm; the machine ends when nothing runs on it any more.
  const untilAllEnded = `trap 'kill $!' TERM; ${command} & wait; while kill -0 -1; do sleep 0.2; done 2>/dev/null`
  const { rows, printed } = await tryFirstSession(machine.commandFor(where, untilAllEnded), {
    folder: where, env: process.env, readyMs: READY_MS
  })
  if (rows.length !== 1) throw new Error(`rows of the first event: ${JSON.stringify(rows)}; it printed:\n${printed}`)
  if (!printed.includes('\nStopped\n')) throw new Error(`it was not stopped in order; it printed:\n${printed}`)
}

function print (text: string): void {
  process.stdout.write(`${text}\n`)
}
