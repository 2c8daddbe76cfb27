import { execFile } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { runCaptured } from '../testing/run-captured.ts'
import { checkServiceFolders, checkServicePrograms, findHiddenProgram, readServiceFolders } from './service-folders.ts'
import { renderUnit, writeService } from './service.ts'

const run = promisify(execFile)
const options = { run: 'start', user: 'daemon', node: process.execPath, entry: path.join(import.meta.dirname, '..', 'main.ts') } as const

t.test('prints the unit of everything or of a tier, for this installation', async (t) => {
  const { code, out } = await runCaptured(['service', 'print', 'ingest', '--user', 'someone'], {})

  t.equal(code, 0)
  t.match(out, `ExecStart=${process.execPath} ${options.entry} ingest\nUser=someone`)
  t.match(out, 'StateDirectory=millrace-ingest')
  t.match((await runCaptured(['service', 'print', 'postgres'], {})).code, 2)
})

t.test('refuses what is no name of a user, before it reaches useradd and the unit', async (t) => {
  for (const name of ['two words', '-x', 'a\nExecStartPre=/bin/true', '0', 'x'.repeat(32)]) {
    const { code, out, err } = await runCaptured(['service', 'print', '--user', name], {})
    t.equal(code, 2, name)
    t.match(err, /Give a name of at most 31 letters/)
    t.equal(out, '')
  }
  t.match(await runCaptured(['service', 'install', '--user', 'root'], {}), { code: 2, out: '', err: /Give another user than root: a service has none/ })
  t.match(await runCaptured(['service', 'print', '--user', 'first.last-2_'], {}), { code: 0, out: /^User=first\.last-2_$/m })
})

t.test('writes the unit and the settings, whose values it never overwrites', async (t) => {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-service-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const { unit, settings } = await writeService(root, options)
  t.equal((await stat(settings)).mode & 0o777, 0o600)
  await writeFile(settings, 'MILLRACE_PORT=80\n')
  await writeService(root, { ...options, user: 'bin' })

  t.match(await readFile(unit, 'utf8'), /^User=bin$/m)
  t.equal(await readFile(settings, 'utf8'), 'MILLRACE_PORT=80\n')
})

t.test('an installation below a home stays readable, another one is not let in there', async (t) => {
  t.match(renderUnit({ ...options, node: '/home/a/node' }), 'ProtectHome=read-only')
  t.match(renderUnit({ ...options, node: '/opt/node', entry: '/opt/main.js' }), 'ProtectHome=yes')
})

t.test('the unit names the page of this installation, also when its path has blanks', async (t) => {
  const page = (entry: string): string | undefined => /^Documentation=(.*)$/m.exec(renderUnit({ ...options, entry }))?.[1]

  t.equal(page('/opt/millrace/node_modules/millrace/dist/cli/main.js'), 'file:///opt/millrace/node_modules/millrace/docs/operations.md')
  t.equal(page('/opt/a clone/cli/main.ts'), 'file:///opt/a%%20clone/docs/operations.md')
  t.equal(page('/opt/50% "of" \'it\'/cli/main.ts'), 'file:///opt/50%%25%%20%%22of%%22%%20%%27it%%27/docs/operations.md')
})

t.test('the unit names the folders that the settings name', async (t) => {
  const settings = path.join(t.testdir(), 'millrace.env')
  await writeFile(settings, '# a comment\nMILLRACE_DATA_DIR=/srv/50% of it\nMILLRACE_BACKUP_FOLDER="/home/backups"\nXDG_CACHE_HOME=/x\n')
  const folders = await readServiceFolders(settings, '/var/lib/millrace')
  t.same(folders, { dataDir: '/srv/50% of it', backups: '/home/backups' })
  const unit = renderUnit({ ...options, node: '/opt/node', entry: '/opt/main.js', folders })
  t.match(unit, 'ReadWritePaths="/srv/50%% of it" -/home/backups\nProtectHome=read-only\n')
  t.match(unit, 'RequiresMountsFor="/srv/50%% of it"\n')

  await writeFile(settings, 'MILLRACE_DATA_DIR=/var/lib/millrace\nMILLRACE_BACKUP_FOLDER=/var/lib/millrace/backups\n')
  t.same(await readServiceFolders(settings, '/var/lib/millrace'), { dataDir: undefined, backups: undefined }, 'below the state directory')
  t.same(await readServiceFolders(`${settings}.missing`, '/var/lib/millrace'), { dataDir: undefined, backups: undefined })
  t.notMatch(renderUnit(options), /ReadWritePaths|RequiresMountsFor/)
  await writeFile(settings, 'MILLRACE_DATA_DIR=\n')
  t.same(await readServiceFolders(settings, '/var/lib/millrace'), { dataDir: undefined, backups: undefined })
  await writeFile(settings, 'MILLRACE_BACKUP_FOLDER=/srv/backups # on the second disk\n')
  await t.rejects(readServiceFolders(settings, '/var/lib/millrace'), { code: 'MILLRACE_SERVICE_REFUSED', message: /line 1: systemd takes #/ })
  await writeFile(settings, 'MILLRACE_DATA_DIR=data\nMILLRACE_BACKUP_FOLDER=~/backups\n')
  await t.rejects(readServiceFolders(settings, '/var/lib/millrace'),
    { code: 'MILLRACE_SERVICE_REFUSED', message: /MILLRACE_DATA_DIR is data and MILLRACE_BACKUP_FOLDER is ~\/backups in .* begins with \// })
  await writeFile(settings, 'MILLRACE_BACKUP_KEEP=none\n')
  await t.rejects(readServiceFolders(settings, '/var/lib/millrace'), { message: /MILLRACE_BACKUP_KEEP must be/ })
  await writeFile(settings, 'MILLRACE_BACKUP_FOLDR=/backups\n')
  await t.rejects(readServiceFolders(settings, '/var/lib/millrace'), { message: /MILLRACE_BACKUP_FOLDR is not a setting/ })
})

t.test('refuses a folder that the user of the service may not write to, with what to do', async (t) => {
  if (process.getuid?.() !== 0) return t.comment('NOT RUN: only root can become another user')
  // Not below /tmp, which a service does not see.
  const root = await mkdtemp('/var/millrace-service-')
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  await chmod(root, 0o755)
  const backups = path.join(root, 'backups')
  const refused = (message: RegExp): { code: string, message: RegExp } => ({ code: 'MILLRACE_SERVICE_REFUSED', message })

  await t.rejects(checkServiceFolders({ backups }, 'daemon'), refused(/is no folder: make it with "install .*--owner=daemon/))
  await mkdir(backups, { mode: 0o700 })
  await t.rejects(checkServiceFolders({ backups }, 'daemon'), refused(/the user daemon may not write: give it/))
  await t.rejects(checkServiceFolders({ dataDir: backups }, 'daemon'), refused(/MILLRACE_DATA_DIR is/))
  await t.rejects(checkServiceFolders({ backups: '/tmp/backups' }, 'daemon'), refused(/does not see \/tmp/))
  const { stdout: uid } = await run('id', ['--user', 'daemon'])
  await chown(backups, Number(uid), 0)
  await checkServiceFolders({ backups, dataDir: backups }, 'daemon')
})

t.test('refuses programs that a service does not see, or its user may not read, and says where to install', async (t) => {
  const inTmp = await mkdtemp('/tmp/millrace-service-')
  const elsewhere = await mkdtemp('/var/millrace-service-').catch(() => undefined)
  t.teardown(async () => {
    for (const each of [inTmp, elsewhere]) if (each !== undefined) await rm(each, { recursive: true })
  })
  const hidden = path.join(inTmp, 'main.js')
  await writeFile(hidden, '')
  const node = '/usr/bin/env'

  t.match(await findHiddenProgram({ node, entry: hidden }), /does not see \/tmp of the system: install Millrace in a folder such as \/opt\/millrace/)
  t.match(await findHiddenProgram({ node: '/var/tmp/node', entry: node }), /^\/var\/tmp\/node cannot be run .*does not see \/var\/tmp/)
  t.equal(await findHiddenProgram({ node, entry: '/opt/tmp/main.js' }), undefined)
  if (import.meta.dirname.startsWith('/tmp/')) t.match(await runCaptured(['service', 'print'], {}), { code: 0, err: /does not see \/tmp/ })

  if (process.getuid?.() !== 0 || elsewhere === undefined) return t.comment('NOT RUN: only root can become another user')
  const refused = (message: RegExp): { code: string, message: RegExp } => ({ code: 'MILLRACE_SERVICE_REFUSED', message })
  const entry = path.join(elsewhere, 'main.js')
  const link = path.join(elsewhere, 'link.js')
  await Promise.all([writeFile(entry, ''), symlink(hidden, link)])
  await t.rejects(checkServicePrograms({ node, entry: link }, 'daemon'), refused(/does not see \/tmp/))
  await t.rejects(checkServicePrograms({ node, entry }, 'daemon'), refused(/main\.js cannot be run by the user daemon of the service, who may not read it: install/))
  await chmod(elsewhere, 0o755)
  await checkServicePrograms({ node, entry }, 'daemon')
  await t.rejects(checkServicePrograms({ node: entry, entry }, 'daemon'), refused(/main\.js cannot be run/))
})

t.test('systemd accepts every line of the unit, and calls it safe, where there is systemd', async (t) => {
  const hasSystemd = await run('systemd-analyze', ['--version']).then(() => true, () => false)
  if (!hasSystemd) return t.comment('NOT RUN: there is no systemd here')
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-service-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const folders = { dataDir: '/srv/a b', backups: '/back%ups' }
  // systemd passes over an address of documentation that it cannot read, with a warning.
  const entry = path.join(root, 'a clone', 'cli', 'main.ts')
  await mkdir(path.dirname(entry), { recursive: true })
  await writeFile(entry, '')
  const { unit } = await writeService(root, { ...options, entry, folders })
  const { stderr } = await run('systemd-analyze', ['verify', '--man=no', unit])
  t.same(stderr.split('\n').filter((line) => line.includes(path.basename(unit))), [])

  const { stdout } = await run('systemd-analyze', ['security', '--offline=true', '--no-pager', unit])
  const [, exposure] = /Overall exposure level.*?: ([\d.]+)/.exec(stdout) ?? []
  t.ok(Number(exposure) < 3, `exposure ${exposure} of 10`)
})
