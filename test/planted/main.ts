/**
 * Plants bugs that the project once had, one at a time, in a copy of the tree, and runs the test that has to find each.
 *
 *     npm run check:planted [-- --bug <commit>...]
 *
 * Says which test found each bug, and by which command it runs. Exits with 1 when a bug was missed, or when a test
 * fails without one; with 2 when a bug can no longer be planted.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { isSystemTest } from '../kinds.ts'
import { PLANTED_BUGS, type PlantedBug } from './bugs.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
/** A bug may make a test wait for ever. */
const FILE_TIMEOUT_SECONDS = 240
/** Of the tree, not to be copied. */
const NOT_COPIED = ['.git', '.tap', 'node_modules', 'dist']

interface Run {
  isPassed: boolean
  seconds: number
  output: string
}

const { values: { bug: chosen } } = parseArgs({ options: { bug: { type: 'string', multiple: true } } })
const bugs = PLANTED_BUGS.filter(({ commit }) => chosen?.includes(commit) ?? true)
const copy = await mkdtemp(path.join(tmpdir(), 'planted-'))
process.exitCode = await check().catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`)
  return 2
})
await rm(copy, { recursive: true, force: true })

async function check (): Promise<number> {
  await copyTree()
  const sound = await runTests([...new Set(bugs.map(({ test }) => test))])
  if (!sound.isPassed) {
    process.stdout.write(`${sound.output}\nThe tests fail without a bug.\n`)
    return 1
  }
  let found = 0
  for (const bug of bugs) {
    const { isPassed, seconds, output } = await tryBug(bug)
    if (!isPassed) found++
    const title = /^ +not ok \d+ - (.*?)(?: # time=.*)?$/m.exec(output)?.[1]
    const command = isSystemTest(bug.test) ? 'npm run test:system' : 'npm test'
    process.stdout.write(`${isPassed ? 'MISSED' : 'found '}  ${seconds.toFixed(1).padStart(5)} s  ${command.padEnd(19)}  ${bug.commit} ${bug.harm}\n`)
    if (title !== undefined) process.stdout.write(`${' '.repeat(39)}${bug.test}: ${title}\n`)
  }
  const byDefault = bugs.filter(({ test }) => !isSystemTest(test)).length
  process.stdout.write(`\n${found} of ${bugs.length} found; npm test runs the tests of ${byDefault}, npm run test:all of all.\n`)
  return found === bugs.length ? 0 : 1
}

/** The packages, and the browser of the tests, are those of the tree. */
async function copyTree (): Promise<void> {
  await cp(ROOT, copy, { recursive: true, filter: (from) => !NOT_COPIED.includes(path.relative(ROOT, from)) })
  await symlink(path.join(ROOT, 'node_modules'), path.join(copy, 'node_modules'))
  await mkdir(path.join(copy, '.tap'))
  const browsers = (await readdir(path.join(ROOT, '.tap')).catch(() => [])).filter((name) => name.startsWith('chromium-'))
  for (const name of browsers) await symlink(path.join(ROOT, '.tap', name), path.join(copy, '.tap', name))
}

async function tryBug ({ commit, file, sound, broken, test }: PlantedBug): Promise<Run> {
  const target = path.join(copy, file)
  const text = await readFile(target, 'utf8')
  if (text.split(sound).length !== 2) throw new Error(`${commit} cannot be planted: ${file} has not exactly once: ${sound}`)
  await writeFile(target, text.replace(sound, () => broken))
  const run = await runTests([test])
  await writeFile(target, text)
  return run
}

async function runTests (files: readonly string[]): Promise<Run> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, [path.join('test', 'main.ts'), ...files], {
    cwd: copy, env: { ...process.env, TAP_TIMEOUT: String(FILE_TIMEOUT_SECONDS) }, stdio: ['ignore', 'pipe', 'inherit']
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => { output += text })
  const [code] = await once(child, 'close')
  return { isPassed: code === 0, seconds: (performance.now() - startedAt) / 1000, output }
}
