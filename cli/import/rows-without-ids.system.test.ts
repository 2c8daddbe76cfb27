/** Rows without an id of their own: equal rows of a file are as many events, those of another file the same ones. */
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import zlib from 'node:zlib'
import { parquetWriteBuffer } from 'hyparquet-writer'
import t from 'tap'
import { uuidOf } from '../../engines/import/imported-event.ts'
import { writeZip } from '../../test/history/generate-export.ts'
import { collectGarbage } from '../../test/support/collect-garbage.ts'
import { createRandom } from '../../test/support/random.ts'
import { matchCaptured } from '../testing/run-captured.ts'
import { lines, START, startImport } from '../testing/start-import.ts'
import { RowMemory } from './row-memory.ts'

const mixpanelRow = (event: string, more: object = {}): object =>
  ({ event, properties: { time: START / 1000, distinct_id: 'ann', plan: 'pro', ...more } })

t.test('Mixpanel: equal rows are as many events, in files that overlap, compressed, in a zip, and a second time', async (t) => {
  const { folder, run, counts, stack } = await startImport(t)
  const thrice = Array.from({ length: 3 }, () => mixpanelRow('click'))
  const once = mixpanelRow('once')
  const withIds = [1, 1, 2].map((id) => mixpanelRow('with id', { $insert_id: id }))
  const blank = [1, 1, 2].map((n) => mixpanelRow('blank id', { $insert_id: '', n }))
  await writeFile(path.join(folder, 'a.json'), lines([...thrice, once, ...withIds, ...blank]))
  await writeFile(path.join(folder, 'b.json.gz'), zlib.gzipSync(lines([once, ...thrice.slice(1), ...blank])))
  await writeFile(path.join(folder, 'c.zip'), writeZip({ '1.json': Buffer.from(lines(thrice)), '2.json.gz': zlib.gzipSync(lines(thrice)) }))
  matchCaptured(t, await run('mixpanel', folder), { code: 0, out: /rows +22\nevents +9\nduplicates +13\n[^]*complete +yes/ })
  const stored = { click: 3, once: 1, 'with id': 2, 'blank id': 3 }
  t.same(await counts(), stored)

  const [row] = await stack.select<{ uuid: string }>("SELECT toString(uuid) AS uuid FROM events WHERE project_id = {project:UInt32} AND event = 'once'", { project: stack.project })
  t.equal(row?.uuid, uuidOf('mixpanel', 'once', 'ann', String(START / 1000), JSON.stringify({ time: START / 1000, distinct_id: 'ann', plan: 'pro' })), 'as in 0.1.0')

  const state = path.join(path.dirname(folder), 'state')
  await rm(state, { recursive: true })
  matchCaptured(t, await run('mixpanel', folder), { code: 0, out: /stored now +0\n/ })
  const progress = JSON.parse(await readFile(path.join(state, 'progress.json'), 'utf8'))
  for (const done of Object.values<{ rows: number }>(progress)) done.rows = Math.min(done.rows, 2)
  await writeFile(path.join(state, 'progress.json'), JSON.stringify(progress))
  matchCaptured(t, await run('mixpanel', folder), { code: 0, out: /stored now +0\nstored exactly so +4 of 4/ }, 'after it was killed')
  t.same(await counts(), stored)
  await writeFile(path.join(folder, 'd.json'), lines([...thrice, ...thrice]))
  matchCaptured(t, await run('mixpanel', folder), { code: 0, out: /events +12\n/ }, 'a file that has more of them')
  t.same(await counts(), { ...stored, click: 6 })
})

t.test('files: rows without a uuid are counted in each file, wherever they stand and in whatever format', async (t) => {
  const { folder, run, counts } = await startImport(t)
  const at = '2023-03-03 10:00:00'
  const rows = [['ann', 'order', '1'], ['ann', 'order', '1'], ['bob', 'order', '2'], ['ann', 'order', '1']]
  await writeFile(path.join(folder, 'a.csv'), `who,what,at,amount\n${rows.map(([who, what, amount]) => `${who},${what},${at},${amount}\n`).join('')}`)
  const moved = [rows[2], ['cem', 'order', '3'], rows[0], rows[0]]
  await writeFile(path.join(folder, 'b.parquet'), Buffer.from(parquetWriteBuffer({
    columnData: ['who', 'what', 'amount'].map((name, i) => ({ name, data: moved.map((row) => row?.[i]) }))
      .concat([{ name: 'at', data: moved.map(() => at) }])
  })))
  const map = ['--map', 'event=what', '--map', 'distinct_id=who']
  matchCaptured(t, await run('files', folder, ...map), { code: 0, out: /rows +8\nevents +5\nduplicates +3\n[^]*complete +yes/ })
  t.same(await counts(), { order: 5 })
  matchCaptured(t, await run('files', path.join(folder, 'b.parquet'), ...map), { code: 0, out: /stored now +0\n/ })
})

t.test('Amplitude: the insert id is an id; rows without it are counted in each file of the zip', async (t) => {
  const { folder, run, counts } = await startImport(t)
  const row = (event: string, more: object = {}): object =>
    ({ event_type: event, event_time: '2023-02-02 10:00:00.000123', user_id: 'ann', event_properties: {}, ...more })
  const inner = zlib.gzipSync(lines([row('bought'), row('bought'), row('seen', { $insert_id: 'x' }), row('seen', { $insert_id: 'x' })]))
  await writeFile(path.join(folder, 'export.zip'), writeZip({ '1/1.json.gz': inner, '1/2.json.gz': inner }))
  await mkdir(path.join(folder, 'unpacked'))
  await writeFile(path.join(folder, 'unpacked/1.json.gz'), inner)
  matchCaptured(t, await run('amplitude', folder), { code: 0, out: /rows +12\nevents +3\nduplicates +9\n[^]*complete +yes/ })
  t.same(await counts(), { bought: 2, seen: 1 })
})

t.test('rows are counted exactly, on disk as soon as the cache is full', async (t) => {
  const file = path.join(t.testdir(), 'rows.sqlite')
  const memory = new RowMemory(file)
  t.teardown(() => { memory.close() })
  memory.beginFile()
  const random = createRandom(57)
  const counted = Array.from({ length: 1000 }, () => 0)
  const uuids = Array.from(counted, (_, i) => uuidOf('row', String(i)))
  let wrong = 0
  let before = 0
  for (let i = 0; i < 700_000; i++) {
    // One of a thousand is a row that came before, of any time.
    const at = i % 1000 === 0 ? Math.floor(random() * 1000) : i
    const times = at < 1000 ? counted[at] = Number(counted[at]) + 1 : 1
    if (memory.count(uuids[at % 1000] ?? '', START + Math.floor(at / 1000)) !== times) wrong++
    if (i === 1000) before = readHeap()
  }
  t.equal(wrong, 0)
  const grown = readHeap() - before
  t.ok(grown < 5_000_000, `the heap has grown by ${grown} bytes`)
  // 22 MB in all, of which the cache has room for 16.
  const { size } = await stat(file)
  t.ok(size > 5_000_000, `${size} bytes on disk`)
  memory.beginFile()
  t.equal(memory.count(uuids[0] ?? '', START), 1, 'of another file')
})

function readHeap (): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
