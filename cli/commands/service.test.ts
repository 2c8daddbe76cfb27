import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { runCaptured } from '../testing/run-captured.ts'
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

t.test('systemd accepts every line of the unit, and calls it safe, where there is systemd', async (t) => {
  const hasSystemd = await run('systemd-analyze', ['--version']).then(() => true, () => false)
  if (!hasSystemd) return t.comment('NOT RUN: there is no systemd here')
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-service-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const { unit } = await writeService(root, options)
  const { stderr } = await run('systemd-analyze', ['verify', '--man=no', unit])
  t.same(stderr.split('\n').filter((line) => line.includes(path.basename(unit))), [])

  const { stdout } = await run('systemd-analyze', ['security', '--offline=true', '--no-pager', unit])
  const [, exposure] = /Overall exposure level.*?: ([\d.]+)/.exec(stdout) ?? []
  t.ok(Number(exposure) < 3, `exposure ${exposure} of 10`)
})
