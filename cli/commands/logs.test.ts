import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { withoutSettings } from '../../test/support/environments.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { runCli } from '../run-cli.ts'
import { runCaptured, type Captured } from '../testing/run-captured.ts'

const line = (component: string, second: number, msg: string): string =>
  `${JSON.stringify({ level: 30, time: Date.UTC(2026, 0, 2, 14, 3, second), component, pid: 1, msg })}\n`

async function makeLogs (t: TestContext): Promise<{ MILLRACE_DATA_DIR: string, folder: string }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-logs-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const folder = path.join(dataDir, 'logs')
  await mkdir(folder)
  await writeFile(path.join(folder, 'ingest.log'), line('ingest', 1, 'first') + line('ingest', 5, 'fourth'))
  await writeFile(path.join(folder, 'pipeline.log'), line('pipeline', 2, 'second'))
  await writeFile(path.join(folder, 'postgres.log'), '2026-01-02 14:03:03.500 UTC [7] LOG:  third\n\tits detail\n')
  return { MILLRACE_DATA_DIR: dataDir, folder }
}

t.test('shows the lines of all processes in order of time, as they were written', async (t) => {
  const { MILLRACE_DATA_DIR } = await makeLogs(t)

  const { code, out } = await runCaptured(['logs'], { MILLRACE_DATA_DIR })
  t.equal(code, 0)
  t.same(out.trim().split('\n').map((text) => /first|second|third|its detail|fourth/.exec(text)?.[0]), ['first', 'second', 'third', 'its detail', 'fourth'])
  t.equal((await runCaptured(['logs', 'pipeline'], { MILLRACE_DATA_DIR })).out, line('pipeline', 2, 'second'))
  t.equal((await runCaptured(['logs', '--lines', '1'], { MILLRACE_DATA_DIR })).out, line('ingest', 5, 'fourth'))
})

t.test('shows as many lines as asked, whole ones, however far back they begin', async (t) => {
  const { MILLRACE_DATA_DIR, folder } = await makeLogs(t)
  const all = Array.from({ length: 30_000 }, (_, index) => line('ingest', index % 60, `number ${index}`))
  await writeFile(path.join(folder, 'ingest.log'), `${all.join('')}{"level":30,"a line that is being wri`)
  const show = async (lines: number): Promise<Captured> => await runCaptured(['logs', 'ingest', '--lines', String(lines)], { MILLRACE_DATA_DIR })

  for (const lines of [1, 9_000, 25_000, 30_000, 100_000]) {
    const { out, err } = await show(lines)
    t.equal(err, '')
    const shown = out.split('\n').slice(0, -1).map((text) => (JSON.parse(text) as { msg: string }).msg)
    t.same(new Set(shown), new Set(all.slice(-lines).map((text) => (JSON.parse(text) as { msg: string }).msg)), `${lines} lines`)
  }
})

t.test('goes on in the file that was copied when the log was emptied', async (t) => {
  const { MILLRACE_DATA_DIR, folder } = await makeLogs(t)
  const older = Array.from({ length: 20 }, (_, index) => line('ingest', 0, `older ${index}`))
  await writeFile(path.join(folder, 'ingest.log.1'), older.join(''))
  const own = line('ingest', 1, 'first') + line('ingest', 5, 'fourth')
  const show = async (...args: string[]): Promise<Captured> => await runCaptured(['logs', ...args], { MILLRACE_DATA_DIR })

  t.match(await show('ingest', '--lines', '2'), { out: own, err: '' })
  t.match(await show('ingest', '--lines', '5'), { out: older.slice(-3).join('') + own, err: '' })
  t.match(await show('ingest', '--lines', '90'), { out: older.join('') + own, err: '' })
  await truncate(path.join(folder, 'ingest.log'))
  t.match(await show('ingest', '--lines', '1'), { out: older.at(-1), err: '' })
  t.match(await show('--lines', '2'), { out: / third\n\tits detail\n$/ }, 'in order of time')
})

t.test('explains errors: no such process, no logs', async (t) => {
  const { MILLRACE_DATA_DIR } = await makeLogs(t)

  t.match(await runCaptured(['logs', 'kafka'], { MILLRACE_DATA_DIR }), { code: 2, err: /Give one of ingest, pipeline/ })
  t.match(await runCaptured(['logs'], { MILLRACE_DATA_DIR: path.join(MILLRACE_DATA_DIR, 'none') }), { code: 1, err: /there are no logs in/ })
})

t.test('follows: new lines, whole ones only, also after the file was emptied', async (t) => {
  const { MILLRACE_DATA_DIR, folder } = await makeLogs(t)
  const file = path.join(folder, 'ingest.log')
  const main = path.join(import.meta.dirname, '..', 'main.ts')
  const child = spawn(process.execPath, [main, 'logs', 'ingest', '--follow'], {
    env: { ...withoutSettings(process.env), MILLRACE_DATA_DIR }, stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => { child.kill('SIGKILL') })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => { out += chunk.toString() })
  await waitFor(() => out.includes('fourth'))

  const fifth = line('ingest', 6, 'fifth')
  await appendFile(file, fifth.slice(0, 20))
  await appendFile(file, fifth.slice(20))
  await waitFor(() => out.endsWith(fifth))
  await truncate(file)
  await appendFile(file, line('ingest', 7, 'sixth'))
  await waitFor(() => out.endsWith(line('ingest', 7, 'sixth')))
  t.equal(out.trim().split('\n').length, 4)

  child.kill('SIGINT')
  t.same(await once(child, 'close'), [0, null], 'Ctrl-C is how it is left')
})

t.test('is readable on a terminal', async (t) => {
  const { MILLRACE_DATA_DIR } = await makeLogs(t)
  let out = ''
  const stdout = { isTTY: true, write: (text: string) => { out += text } }
  await runCli(['logs', 'pipeline'], { env: { MILLRACE_DATA_DIR }, stdout, stderr: stdout, now: Date.now })

  t.equal(out, '14:03:02.000 INFO  pipeline   second\n')
})
