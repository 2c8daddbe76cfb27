import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { freePorts } from '../../test/support/local-ports.ts'
import { withoutSettings } from '../../test/support/environments.ts'
import { isRoot, readNobodyUid } from '../postgres/postgres-cluster.ts'
import { makeDataDir } from '../supervisor/testing/run-main.ts'
import { lockDataDir } from './data-dir-lock.ts'

const MAIN = path.join(import.meta.dirname, '..', 'supervisor', 'main.ts')

/** Conditions that only root can make, by the mount on the data directory. */
const MOUNTS: readonly [what: string, mount: string, says: RegExp][] = [
  ['read-only', 'mount --bind "$DIR" "$DIR" && mount -o remount,ro,bind "$DIR"', /is on a read-only file system: mount it writable, or set/],
  ['without inodes', 'mount -t tmpfs -o nr_inodes=2 test "$DIR"', /is full \(.* files \(inodes\) are free\): make room, or set/],
  ['with too few inodes', 'mount -t tmpfs -o nr_inodes=300 test "$DIR"', /is full: .* 297 files .* a start needs .*: make room, or set/],
  ['of 1 MB', 'mount -t tmpfs -o size=1m test "$DIR"', /is full: 1\.0 MB .* a start needs 100\.0 MB .*: make room, or set/]
]

t.test('npm start on a disk that takes nothing ends with one sentence', {
  skip: isRoot() && process.platform === 'linux' ? false : 'only root on Linux can mount such disks', timeout: 240_000
}, async (t) => {
  const starts = MOUNTS.map(async ([what, mount, says]) => (
    { what, says, ...await startOn(await makeDataDir(t), mount) }))

  for (const { what, says, code, output } of await Promise.all(starts)) {
    t.equal(code, 1, what)
    t.match(output, says)
    t.equal(output.trim().split('\n').filter(Boolean).length, 2, `one line after the heading, not ${output}`)
  }
})

t.test('a data directory that is a file, or lies below one, is said to be one', async (t) => {
  const folder = await makeDataDir(t)
  const file = path.join(folder, 'file')
  await writeFile(file, '')

  for (const dataDir of [file, path.join(file, 'below')]) {
    await t.rejects(lockDataDir(dataDir), { code: 'MILLRACE_DATA_DIR_UNUSABLE', message: /\/file is a file, not a folder/ })
  }
})

t.test('a data directory where no folder can be made is refused at once', { skip: process.platform === 'linux' ? false : 'Linux has /proc' }, async (t) => {
  await t.rejects(lockDataDir('/proc/millrace/data'), { code: 'MILLRACE_DATA_DIR_UNUSABLE', message: /cannot write to the data directory \/proc\/millrace\/data: / })
})

t.test('a data directory of somebody else names the user that may not write to it', async (t) => {
  const folder = await makeDataDir(t)
  const dataDir = path.join(folder, 'data')
  await mkdir(dataDir)
  await chmod(dataDir, 0o555)
  await chmod(folder, 0o755)
  const uid = isRoot() ? await readNobodyUid() : process.getuid?.()
  const script = `process.setuid?.(${uid}); import(${JSON.stringify(path.join(import.meta.dirname, 'data-dir-lock.ts'))})
    .then(({ lockDataDir }) => lockDataDir(process.argv[1])).catch(({ code, message }) => console.log(code, message))`
  const lock = async (dir: string): Promise<string> => await text(spawn(process.execPath, ['-e', script, dir], {
    env: withoutSettings({ PATH: process.env.PATH }), stdio: ['ignore', 'pipe', 'inherit']
  }).stdout)

  t.match(await lock(path.join(dataDir, 'new')), new RegExp(`MILLRACE_DATA_DIR_UNUSABLE .*the user ${uid} may not write to .*/data: give`))
  if (!isRoot()) return
  // As a volume is that everybody may use: the container before ran as another user.
  await chmod(dataDir, 0o1777)
  await (await lockDataDir(dataDir)).release()
  await chmod(path.join(dataDir, 'lock.held'), 0o600)
  t.match(await lock(dataDir), `the user ${uid} may not read and write ${dataDir}/lock.held, which belongs to the user 0`)
})

t.test('a start that fails because something in the data directory belongs to somebody else says what, and what to do', {
  skip: isRoot() ? false : 'only root can give files away'
}, async (t) => {
  const dataDir = path.join(await makeDataDir(t), 'data')
  const file = path.join(dataDir, 'nats', 'nats-server.conf')
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, '', { mode: 0o600 })
  const uid = await readNobodyUid()
  for (const own of [path.dirname(dataDir), dataDir, path.dirname(file)]) await chown(own, uid, uid)
  const script = `process.setuid?.(${uid}); import(${JSON.stringify(path.join(import.meta.dirname, 'check-data-dir.ts'))})
    .then(({ explainFailedStart }) => explainFailedStart(process.argv[1], new Error(process.argv[2])))
    .then(({ code, message }) => console.log(code, message))`
  const explain = async (message: string): Promise<string> => await text(spawn(process.execPath, ['-e', script, dataDir, message], {
    env: withoutSettings({ PATH: process.env.PATH }), stdio: ['ignore', 'pipe', 'inherit']
  }).stdout)

  t.equal((await explain('EACCES: permission denied, open')).trim(), `MILLRACE_DATA_DIR_UNUSABLE cannot use the data directory ${dataDir}: ` +
    `the user ${uid} may not read and write ${file}, which belongs to the user 0: as an administrator, run "chown --recursive ${uid} ${dataDir}"`)
  t.equal((await explain('something else')).trim(), 'undefined something else', 'other errors stay as they are')
  await chown(file, uid, uid)
  t.equal((await explain('EACCES: permission denied, open')).trim(), 'undefined EACCES: permission denied, open')
})

/** Runs `npm start` where nobody else sees the mount, which goes with it. */
async function startOn (dataDir: string, mount: string): Promise<{ code: number | null, output: string }> {
  const [port, clickhousePort, natsPort, postgresPort] = await freePorts(4)
  const child = spawn('unshare', [
    '--mount', '--propagation', 'private', 'sh', '-c', `${mount} && exec "$0" "$1"`, process.execPath, MAIN
  ], {
    env: {
      PATH: process.env.PATH, HOME: process.env.HOME, DIR: dataDir, MILLRACE_DATA_DIR: dataDir,
      MILLRACE_PORT: String(port), MILLRACE_CLICKHOUSE_PORT: String(clickhousePort),
      MILLRACE_NATS_PORT: String(natsPort), MILLRACE_POSTGRES_PORT: String(postgresPort)
    },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code: code as number | null, output: out + err }
}
