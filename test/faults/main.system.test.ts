import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'

async function runMain (...args: string[]): Promise<{ code: number | null, out: string, err: string }> {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'main.ts'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { out, err, code: code as number | null }
}

t.test('an event that is removed and one that is repeated behind its back are reported, with exit status 1', async (t) => {
  // While inserts are refused events wait for seconds: who repeats a wrong watermark then is passed for sure.
  const faults = ['clickhouse-busy', 'clickhouse-unknown', 'ingest-kill'].flatMap((name) => ['--fault', name])
  const { code, out, err } = await runMain('--minutes', '0.01', ...faults, '--rate', '250', '--tamper', '--tamper-watermark')
  const logs = /^logs: (.*)$/m.exec(out)?.[1]
  if (logs !== undefined) await rm(logs, { recursive: true, force: true })

  t.equal(code, 1, `ended with code ${code}: ${err}${out.slice(-2000)}`)
  t.match(out, /drained: lost 1, duplicated 1,/)
  t.match(out, /lost in \w+: [\da-f-]{36}\n/)
  t.match(out, /DIFFERENCE: \d+ events, but volumes sum up to \d+/)
  t.match(out, /DIFFERENCE: books: 1 missing, 0 extra /)
  t.match(out, /DIFFERENCE: books: 0 missing, 1 extra /)
  t.match(out, /\nwatermark: \d+ samples, \d+ moves, passed [1-9]/, 'a watermark that proves nothing is noticed')
  t.match(out, /\nrepeated by: .*experiment results \d+ times, passed [1-9].*; status \d+ times, passed [1-9]/, 'and by those who repeat it')
  t.match(out, /NOT CLEAN\n/)
})

t.test('lists the faults, explains the options, and refuses what does not exist', async (t) => {
  const [listed, explained, refused, unknown] = await Promise.all([
    runMain('--list'), runMain('--help'), runMain('--fault', 'earthquake'), runMain('--hours', '1')
  ])
  t.equal(listed.code, 0, listed.err)
  t.ok(listed.out.split('\n').length > 30)
  t.equal(refused.code, 2)
  t.match(refused.err, /no fault earthquake/)
  t.equal(explained.code, 0, explained.err)
  t.match(explained.out, /--minutes <number>/)
  t.equal(unknown.code, 2)
  t.match(unknown.err, /unknown option '--hours'/)
})
