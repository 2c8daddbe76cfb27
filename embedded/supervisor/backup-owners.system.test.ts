import { execFile } from 'node:child_process'
import { chmod, chown, cp, mkdir, readdir, rename } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { type Captured, runCaptured } from '../../cli/testing/run-captured.ts'
import { withoutSettings } from '../../test/support/environments.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { nameBackup } from '../data-dir/backup-folders.ts'
import { readAddresses } from '../data-dir/stack-access.ts'
import { canEnter } from '../postgres/find-postgres.ts'
import { isRoot, readNobodyUid } from '../postgres/postgres-cluster.ts'
import { chooseSettings, makeDataDir, runMain } from './testing/run-main.ts'

const CLI = path.join(import.meta.dirname, '..', '..', 'cli', 'main.ts')

t.test('backups of a service, and root who tries to make one by hand', { skip: await whyNot() }, async (t) => {
  const uid = await readNobodyUid()
  const dataDir = await makeDataDir(t, uid)
  const root = path.join(dataDir, '..', `${path.basename(dataDir)}-backups`)
  await mkdir(root, { mode: 0o700 })
  await chown(root, uid, uid)
  t.teardown(async () => { await promisify(execFile)('rm', ['-rf', root]) })
  await runMain(t, { ...await chooseSettings(dataDir), HOME: dataDir, XDG_CACHE_HOME: '' }, uid).ready()
  const settings = { MILLRACE_DATA_DIR: dataDir, MILLRACE_BACKUP_FOLDER: root, MILLRACE_BACKUP_KEEP: '1' }
  const asRoot = async (...args: string[]): Promise<Captured> =>
    await runCaptured(args, { PATH: process.env.PATH, ...settings })
  const asService = async (...args: string[]): Promise<Captured> => {
    const env = { ...withoutSettings(process.env), ...settings, HOME: dataDir }
    // The test runner would instrument it, which that user cannot write down; see `test/support/run-uninstrumented.js`.
    const command = ['-u', 'NODE_OPTIONS', process.execPath, CLI, ...args]
    return await promisify(execFile)('env', command, { env, uid, gid: uid }).then(
      ({ stdout, stderr }) => ({ code: 0, out: stdout, err: stderr }),
      ({ code, stdout, stderr }: { code: number, stdout: string, stderr: string }) => ({
        code, out: stdout, err: stderr
      }))
  }
  const run = async (): Promise<Captured & { folder: string, removed: string[] }> => {
    // The folder of a backup is named after its second.
    const names = await readdir(root)
    await waitFor(() => !names.includes(nameBackup(Date.now())))
    const captured = await asService('backups', 'run', '--json')
    t.equal(captured.code, 0, captured.err)
    return { ...captured, ...JSON.parse(captured.out) as { folder: string, removed: string[] } }
  }

  const folder = path.join(root, '..', 'by-root')
  for (const command of [['backups', 'run'], ['backup', folder]]) {
    t.match(await asRoot(...command), { code: 1, err: new RegExp(`runs as the user ${uid}, .* with sudo --user=#${uid}`) }, command.join(' '))
  }
  t.same([await readdir(root), await readdir(dataDir).then((names) => names.includes('backup.lock'))], [[], false], 'nothing is left')
  const first = await run()
  const byService = await run()
  t.same(byService.removed, [first.folder])

  await t.test('one that the service may not read is named, and is no reason to stop', async (t) => {
    const foreign = path.join(root, nameBackup(Date.UTC(2026, 10, 1)))
    await cp(byService.folder, foreign, { recursive: true })
    await chmod(foreign, 0o700)
    const sentence = new RegExp(`${foreign} cannot be read by the user ${uid}, because it belongs to the user 0: .*chown --recursive ${uid} `)

    const later = await run()

    t.same(later.removed, [byService.folder], 'those that it may read are removed')
    t.match(later.err, sentence)
    t.same((await readdir(root)).sort(), ['installation.json', path.basename(foreign), path.basename(later.folder)])
    const listed = await asService('backups', 'list', '--json')
    t.match(JSON.parse(listed.out), [{ folder: later.folder, version: String }, { folder: foreign, damage: 'not readable' }])
    t.match(listed.err, sentence)

    await t.test('also where it is the only one', async (t) => {
      await rename(later.folder, path.join(dataDir, 'later'))
      t.match(await run(), { err: sentence, removed: [] })
    })

    await t.test('and status, health and metrics say so', async (t) => {
      const { pipelineUrl } = await readAddresses(dataDir)
      const read = async (): Promise<string> => await (await fetch(`${pipelineUrl}/metrics`)).text()
      await waitFor(async () => (await read()).includes('millrace_pipeline_backup_warned 1'))
      t.match(await read(), /^millrace_pipeline_backup_failed 0$/m)
      await waitFor(async () => /^last backup +waiting .* cannot be read by the user/m.test((await asRoot('status', '--once')).out))
    })
  })
})

/** Why it cannot be tried here; false: it can. */
async function whyNot (): Promise<string | false> {
  if (!isRoot()) return 'needs two users'
  return await canEnter(import.meta.dirname, await readNobodyUid()) ? false : `only root can enter ${import.meta.dirname}`
}
