import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { fitScreen, type Line, NO_SCREEN, readScreen } from './fit-screen.ts'

const run = promisify(execFile)

const LINES: Line[] = [
  'Millrace 1.2.3   DEGRADED  captures are answered, flags get no answer',
  '',
  { name: 'ingest', state: 'ok', cells: [['12,345 events/s accepted', '12,345 events/s'], '0/s dropped', '1.2 MB/s', 'publish 12 ms'] },
  { name: 'spool', state: 'waiting', cells: ['12 MB', '0 messages refused'] },
  { name: 'pipeline', state: 'ok x2', cells: ['12,345 rows/s', 'insert 12 ms'] },
  { name: 'definitions', state: '', cells: ['1.0 s old'] },
  '',
  'STUCK  clickhouse: no answer'
]

function draw (columns: number, rows: number, lines = LINES): string[] {
  const text = fitScreen(lines, { columns, rows }, ['definitions', 'spool'])
  return text.split('\n').slice(0, -1)
}

t.test('nothing is left out and figures are below each other where there is room', async (t) => {
  t.equal(fitScreen(LINES, NO_SCREEN, []), fitScreen(LINES, { columns: 130, rows: 50 }, []))
  t.equal(draw(130, 50).length, LINES.length)
  t.equal(draw(130, 9).length, 8, 'the last row of the terminal is for the cursor')
  t.match(draw(130, 50)[2], /^ingest {10}ok {8}12,345 events\/s accepted {2}0\/s dropped {15}1\.2 MB\/s/)
})

t.test('a narrow terminal shows the same figures closer together, and breaks sentences between words', async (t) => {
  const lines = draw(60, 50)

  t.equal(lines[0], 'Millrace 1.2.3   DEGRADED  captures are answered, flags get')
  t.equal(lines[1], 'no answer')
  t.equal(lines[3], 'ingest       ok        12,345 events/s  0/s dropped  1.2 ...')
  t.equal(draw(80, 50)[2], 'ingest       ok        12,345 events/s  0/s dropped  1.2 MB/s  publish 12 ms')
  t.equal(draw(60, Infinity)[2], draw(80, 50)[2], 'what can be scrolled is not cut')
  t.ok(draw(9, 50).every((line) => line.length <= 9))
})

t.test('a low terminal shows what is wrong, and says how much it leaves out', async (t) => {
  t.same(draw(130, 7).map((line) => line.slice(0, 11)), ['Millrace 1.', 'ingest     ', 'spool      ', 'pipeline   ', 'definitions', 'STUCK  clic'])
  t.same(draw(80, 6).map((line) => line.slice(0, 11)), ['Millrace 1.', 'ingest     ', 'spool      ', '... 2 more ', 'STUCK  clic'])
  t.same(draw(80, 5).map((line) => line.slice(0, 11)), ['Millrace 1.', 'spool      ', '... 3 more ', 'STUCK  clic'])
  t.same(draw(80, 3).map((line) => line.slice(0, 11)), ['Millrace 1.', 'STUCK  clic'])
  t.equal(draw(80, 1).length, 2, 'too low for anything')
  const sentences = ['head', 'one', 'two', 'three', 'four']
  t.same(draw(80, 4, sentences), ['head', 'three', 'four'], 'the worst comes last')
})

t.test('a stream that is no terminal, or one of unknown size, has no limits', async (t) => {
  t.same(readScreen({ columns: 80, rows: 24 }), NO_SCREEN)
  t.same(readScreen({ isTTY: true, columns: 0, rows: 0 }), NO_SCREEN)
  t.same(readScreen({ isTTY: true, columns: 80, rows: 24 }), { columns: 80, rows: 24 })
})

t.test('the live status fits into terminals of 80x24, 80x20 and 40x10, and does not scroll', async (t) => {
  const nobody = 'http://127.0.0.1:9'
  const env = {
    ...process.env, TERM: 'xterm', MILLRACE_DATA_DIR: t.testdir(), NATS_URL: 'nats://127.0.0.1:9', CLICKHOUSE_URL: nobody, DATABASE_URL: 'postgres://a@127.0.0.1:9/a'
  }
  const command = `${process.execPath} ${path.join(import.meta.dirname, 'main.ts')} status --ingest ${nobody} --pipeline ${nobody} --api ${nobody}`
  await Promise.all(([[80, 24], [80, 20], [40, 10]] as const).map(async ([columns, rows]) => {
    const inTerminal = `stty cols ${columns} rows ${rows}; exec timeout --foreground 10 ${command}`
    // Ended by the time, so with another code than 0.
    const { stdout } = await run('script', ['--quiet', '--return', '--command', inTerminal, '/dev/null'], { env }).catch((error: { stdout?: string }) => {
      if (error.stdout === undefined) throw error
      return { stdout: error.stdout }
    })
    const screens = stdout.split('\u001b[H\u001b[J').slice(1)
    t.ok(screens.length >= 1, `${columns}x${rows}: ${screens.length} screens`)
    const lines = screens[0]!.split('\r\n')
    t.ok(lines.length <= rows && lines.every((line) => line.length <= columns), `${columns}x${rows}: ${lines.length} lines`)
    t.match(lines[0], /^Millrace/)
    t.match(screens[0], /STUCK/)
  }))
})
