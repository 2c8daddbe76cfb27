import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { chooseSettings, runMain } from '../../../embedded/supervisor/testing/run-main.ts'
import { verifyBackupFiles } from '../backup-files.ts'
import { readManifest } from '../backup-folder.ts'
import { createRandom } from '../../../test/support/random.ts'
import { waitFor } from '../../../test/support/wait-for.ts'

const MAIN = path.join(import.meta.dirname, '..', '..', 'main.ts')

export interface Interruption {
  /** For backups; removed by the caller. */
  root: string
  /** Of a running stack that stores nothing meanwhile. */
  dataDir: string
  /** How often, at moments of its choice. */
  kills: number
}

/**
 * Kills backups at many moments, and one in the very moment in which its manifest appears: one that has a manifest has
 * all that the manifest names, and whatever a killed one had frozen is gone after the next.
 */
export async function interruptBackups (t: Test, { root, dataDir, kills }: Interruption): Promise<void> {
  const shadow = path.join(dataDir, 'clickhouse', 'shadow')
  const random = createRandom(5)
  const startedAt = performance.now()
  t.equal(await runCommand(['backup', path.join(root, 'whole')], dataDir).exited, 0)
  const tookMs = performance.now() - startedAt
  t.same(await listFrozen(shadow), [], 'nothing stays frozen')

  let complete = 0
  for (let kill = 0; kill < kills; kill++) {
    const folder = path.join(root, `killed-${kill}`)
    const backup = runCommand(['backup', folder], dataDir)
    // The start of the command is a third of its time; what matters comes after it.
    await delay(tookMs * (0.3 + 0.8 * random()))
    backup.kill()
    await backup.exited
    if (await isComplete(t, folder)) complete++
  }
  t.comment(`${complete} of ${kills} that were killed have a manifest`)

  const folder = path.join(root, 'killed-at-its-end')
  const backup = runCommand(['backup', folder], dataDir)
  await appeared(folder, 'manifest.json')
  backup.kill()
  await backup.exited
  t.ok(await isComplete(t, folder))
  t.same(await listFrozen(shadow), [], 'with its manifest a backup has done everything else, and cleared up for others')
}

/** Kills a restore in its middle: the data directory is refused then. It is left to be restored again. */
export async function interruptRestore (
  t: Test, { backup, dataDir }: { backup: string, dataDir: string }
): Promise<void> {
  const killed = runCommand(['restore', backup], dataDir)
  await appeared(path.join(dataDir, 'clickhouse'), 'data')
  killed.kill()
  await killed.exited

  const refused = runMain(t, await chooseSettings(dataDir))
  t.equal(await refused.exited, 1)
  t.match(refused.output(), /holds only part of a backup.*"npx millrace restore \S+" again/)
}

/** False without a manifest; with one, every file that it names must be as it says. */
async function isComplete (t: Test, folder: string): Promise<boolean> {
  const names = await readdir(folder).catch((): string[] => [])
  if (!names.includes('manifest.json')) return false
  const manifest = await readManifest(folder)
  await t.resolves(verifyBackupFiles(folder, manifest.files, () => {}))
  return true
}

async function listFrozen (shadow: string): Promise<string[]> {
  return (await readdir(shadow)).filter((name) => name.startsWith('backup_'))
}

/** Resolves when a name appears in a folder, which may not be there yet. */
async function appeared (folder: string, name: string): Promise<void> {
  await waitFor(async () => (await readdir(folder)).includes(name), { everyMs: 1 })
}

/** Runs a command on a data directory. */
export function runCommand (
  args: string[], dataDir: string
): { kill: () => void, exited: Promise<number | null>, printed: () => string } {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  let printed = ''
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH, HOME, NODE_COMPILE_CACHE, MILLRACE_DATA_DIR: dataDir }, stdio: ['ignore', 'ignore', 'pipe']
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => { printed += text })
  return {
    kill: () => { child.kill('SIGKILL') },
    exited: once(child, 'close').then(([code]) => code as number | null),
    printed: () => printed
  }
}
