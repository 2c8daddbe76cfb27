import { execFileSync } from 'node:child_process'
import { mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { isRoot } from '../../embedded/postgres/postgres-cluster.ts'
import { startStack } from '../../test/start-stack.ts'
import { FILE_TIMEOUT_MS } from '../../test/test-pool.ts'
import { interruptBackups, interruptRestore, runCommand } from './testing/interrupt-backup.ts'

/** A campaign kills more often: `MILLRACE_TEST_KILLS=100 npx node cli/backup/interrupted-backup.system.test.ts`. */
const KILLS = Number(process.env.MILLRACE_TEST_KILLS ?? 3)
const EVENTS = 3000

t.setTimeout(FILE_TIMEOUT_MS + KILLS * 5000)

t.test('a backup or restore that is killed, or finds no room, leaves nothing that looks whole', async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-test-backup-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const backup = path.join(root, 'whole')
  const stack = await startStack()
  t.teardown(async () => { await stack.stop() })
  const batch = Array.from({ length: EVENTS }, (_, n) => ({ event: `event ${n % 3}`, distinct_id: `user ${n % 100}`, properties: { n, $set: { n } } }))
  const sent = await fetch(`${stack.url}/batch/`, { method: 'POST', body: JSON.stringify({ api_key: stack.projectApiKey, batch }) })
  t.equal(sent.status, 200)

  await t.test('a backup has a manifest only when it is complete', async (t) => {
    await interruptBackups(t, { root, dataDir: stack.dataDir, kills: KILLS })
  })
  await t.test('one whose disk has no files (inodes) for it is refused, and leaves nothing', { skip: isRoot() ? false : 'only root can mount' }, async (t) => {
    const disk = await mkdtemp(path.join(root, 'inodes-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=300', 'millrace-test', disk])
    t.teardown(() => { execFileSync('umount', ['--lazy', disk]) })

    const refused = runCommand(['backup', path.join(disk, 'backup')], stack.dataDir)
    t.equal(await refused.exited, 1)
    t.match(refused.printed(), /MB and \d+ files \(inodes\) are free, and the backup may need .* files \(inodes\): remove older backups/)
    t.same(await readdir(disk), [], 'not even the folder that it made')
  })
  await t.test('one whose snapshot fails leaves nothing of it', async (t) => {
    const shadow = path.join(stack.dataDir, 'clickhouse', 'shadow')
    await rename(shadow, `${shadow}.away`)
    await writeFile(shadow, 'in the way of the hard links')
    const failed = runCommand(['backup', path.join(root, 'failed')], stack.dataDir)
    t.equal(await failed.exited, 1, failed.printed())
    t.same(await stack.select("SELECT name FROM system.databases WHERE name = 'millrace_backup'"), [], 'no copy of the events')
    await rm(shadow)
    await rename(`${shadow}.away`, shadow)
  })
  await stack.stop()
  await t.test('after a restore nothing starts, and it starts over', async (t) => {
    const restored = path.join(root, 'data')
    await interruptRestore(t, { backup, dataDir: restored })
    t.equal(await runCommand(['restore', backup], restored).exited, 0)
  })
})
