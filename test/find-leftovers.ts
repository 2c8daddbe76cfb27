import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { waitFor } from './support/wait-for.ts'

/** A process that was told to end may still be ending; after this long it counts as left behind. */
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
export async function findLeftovers (
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
export async function listTree (root: string): Promise<string[]> {
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
