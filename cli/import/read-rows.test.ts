/** The files of an export that are read, and the errors of unreadable files and rows. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import zlib from 'node:zlib'
import { type BasicType, fileWriter, ParquetWriter, parquetWriteBuffer, schemaFromColumnData } from 'hyparquet-writer'
import t, { type Test } from 'tap'
import { writeZip } from '../../test/history/generate-export.ts'
import { listFiles, type ReadRow } from './list-files.ts'
import { readRows } from './read-rows.ts'

async function read (t: Test, name: string, content: string | Buffer): Promise<ReadRow[]> {
  const file = path.join(t.testdir({}), name)
  await writeFile(file, content)
  const rows = readRows({ path: file, name, bytes: Buffer.byteLength(content) })
  return (await Array.fromAsync(rows, (some) => [...some])).flat()
}

t.test('each real file of a folder is listed once, whatever links lead to it', async (t) => {
  const folder = t.testdir({ '.hidden': { 'a.json': '{}' }, 1: { 'ok.ndjson': '{}' }, 'README.md': '# Export', '2024_manifest.json': '{"files":[]}' })
  await symlink('.', path.join(folder, 'self'))
  await symlink('1', path.join(folder, '0'))
  await symlink('1/ok.ndjson', path.join(folder, '0.ndjson'))
  const skipped: string[] = []

  const files = await listFiles([folder, path.join(folder, '1'), path.join(folder, 'self')], (name) => { skipped.push(name) })
  t.equal(files.length, 1)
  t.same(skipped, ['2024_manifest.json', 'README.md'])
  const [only] = await listFiles([folder])
  t.match(only, { name: '1/ok.ndjson', bytes: 2 })
  await mkdir(path.join(folder, '2'))
  await symlink('../1/ok.ndjson', path.join(folder, '2/link.ndjson'))
  await symlink('nowhere', path.join(folder, '2/lost.ndjson'))
  t.match(await listFiles([path.join(folder, '2')], (name) => { skipped.push(name) }), [{ name: 'link.ndjson' }], 'a link out of the folder')
  t.same(skipped.slice(2), ['lost.ndjson'])
  await t.rejects(listFiles([path.join(folder, '2024_manifest.json')], (name) => { skipped.push(name) }), { message: /^no files in / })
  t.equal(skipped.at(-1), '2024_manifest.json', 'as a pattern of the shell names it')
})

t.test('two files of one name in different folders are refused, and accepted below a common folder', async (t) => {
  const folder = t.testdir({ 2023: { 'jan.csv': 'a' }, 2024: { 'jan.csv': 'b' } })
  await t.rejects(listFiles([path.join(folder, '2023'), path.join(folder, '2024')]), {
    message: 'two files are named jan.csv: pass the folder that contains both'
  })
  t.match(await listFiles([folder]), [{ name: '2023/jan.csv' }, { name: '2024/jan.csv' }])
})

t.test('a file that is not regular is refused by name, or left out of its folder', async (t) => {
  const folder = t.testdir({ 'a.csv': 'x' })
  const pipe = path.join(folder, 'b.csv')
  execFileSync('mkfifo', [pipe])
  await t.rejects(listFiles([pipe]), { message: `${pipe} is not a regular file; save it first` })
  await t.rejects(listFiles(['/dev/null']), { message: '/dev/null is not a regular file; save it first' })
  t.match(await listFiles([folder]), [{ name: 'a.csv' }])
  await mkdir(path.join(folder, 'empty'))
  await t.rejects(listFiles([path.join(folder, 'empty')]), { message: /^no files in / })
})

t.test('a file with other content than its name says is an error', async (t) => {
  for (const [name, content, error] of [
    ['a.csv.gz', 'not gz', 'the content is not gz'], ['a.json.zst', '{}', 'the content is not zst'],
    ['a.json', '\n[\n{"event": "a"}]', 'the file is a JSON array'], ['a.png', '\x89PNG\n', 'the file is not JSON Lines, CSV, Parquet or zip'],
    ['a.csv', 'event,at,event\n', 'the header has the column "event" twice'], ['b.csv', 'a,b\n1,"2\n3,4\n', 'Quote Not Closed']
  ] as const) await t.rejects(read(t, name, content), { message: new RegExp(error) }, name)
  t.same(await read(t, 'a.json.gz', zlib.gzipSync('{"a": 1}')), [{ position: 1, row: { a: 1 } }])
  t.same(await read(t, 'a.json', ''), [])
  t.same(await read(t, 'a.csv', 'a,b\n'), [])
})

t.test('JSON Lines: a line that is too long or not UTF-8 is reported in its place, and the rest continues', async (t) => {
  const long = `{"a": "${'x'.repeat(20_000_000)}"}`
  const latin1 = Buffer.from('{"a": "caf\xe9"}', 'latin1')
  const rows = await read(t, 'a.json', Buffer.concat([Buffer.from(`\ufeff{"a": "Ü✓"}\n${long}\n\n`), latin1, Buffer.from('\n{"a": "\ufffd"}')]))
  t.match(rows, [
    { position: 1, row: { a: 'Ü✓' } }, { position: 2, error: 'the line has more than 20000000 bytes', text: /^{"a": "x{9000}/ },
    { position: 4, error: 'the line is not UTF-8', text: '{"a": "café"}' }, { position: 5, row: { a: '\ufffd' } }
  ])
})

t.test('CSV: every data row has its number, and a bad one keeps its content', async (t) => {
  const latin1 = Buffer.from('7,caf\xe9,z\n', 'latin1')
  const rows = await read(t, 'a.csv', Buffer.concat([Buffer.from('\ufeffn,__proto__,note\n1,2\n\n2,Ü,said "yes" twice\n3,4,5,ü\n4,"a\nb",\n'), latin1]))
  t.same(rows.map((row) => 'row' in row ? { ...row, row: Object.entries(row.row as object) } : row), [
    { position: 1, error: 'the row has 2 columns, the header has 3', text: '["1","2"]' },
    { position: 2, row: [['n', '2'], ['__proto__', 'Ü'], ['note', 'said "yes" twice']] },
    { position: 3, error: 'the row has 4 columns, the header has 3', text: '["3","4","5","ü"]' },
    { position: 4, row: [['n', '4'], ['__proto__', 'a\nb'], ['note', '']] },
    { position: 5, error: 'the row is not UTF-8', text: '["7","café","z"]' }
  ])
})

t.test('CSV: a quote that is not closed does not make a value of the rows below it', async (t) => {
  const rows = await read(t, 'a.csv', 'n,note\n1,"lost\n2,b\n3,"c"\n4,"d ""e"",\nf"\n5,g "h" i\n')
  t.match(rows, [
    { position: 1, error: 'an unclosed or undoubled quote makes one row of 3 lines', text: /2,b/ },
    { position: 2, row: { n: '4', note: 'd "e",\nf' } }, { position: 3, row: { n: '5', note: 'g "h" i' } }
  ])
})

t.test('CSV: the delimiter is that of the header', async (t) => {
  for (const [name, content] of [
    ['a.csv', 'a;"b,c,d"\n1;2,5\n'], ['a.tsv', 'a\t"b,c,d"\n1\t2,5\n'], ['b.csv', 'a,"b,c,d"\n1,"2,5"\n'],
    ['c.csv', Buffer.from('\ufeffa\t"b,c,d"\r\n1\t2,5\r\n', 'utf16le')]
  ] as const) t.same(await read(t, name, content), [{ position: 1, row: { a: '1', 'b,c,d': '2,5' } }], name)
})

t.test('Parquet: a text that is not UTF-8, or not JSON where the column says so, is reported in its row', async (t) => {
  const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1')
  const rows = await read(t, 'a.parquet', Buffer.from(parquetWriteBuffer({
    columnData: [
      { name: 'event', data: ['Ü✓', 'b', 'c'].map((text) => text === 'b' ? bytes('caf\xe9') : Buffer.from(text)), type: 'BYTE_ARRAY' },
      { name: 'properties', data: [{ a: 1 }, {}, {}], type: 'JSON' }
    ]
  })))
  t.match(rows, [{ position: 1, row: { event: 'Ü✓', properties: { a: 1 } } }, { position: 2, error: 'the row is not UTF-8', text: /café/ }, { position: 3, row: { event: 'c' } }])
})

t.test('Parquet: whole numbers of 64 bits are numbers of JSON, with all their digits, also inside of lists', async (t) => {
  const [numbers] = await read(t, 'a.parquet', Buffer.from(parquetWriteBuffer({
    columnData: [
      { name: 'id', data: [7n], type: 'INT64' }, { name: 'large', data: [2n ** 62n + 1n], type: 'INT64' },
      { name: 'at', data: [new Date(1.7e12)], type: 'TIMESTAMP' }, { name: 'more', data: [{ list: [1, { deep: null }] }], type: 'JSON' }
    ]
  })))
  t.equal(JSON.stringify(numbers), '{"position":1,"row":{"id":7,"large":4611686018427387905,"at":"2023-11-14T22:13:20.000Z","more":{"list":[1,{"deep":null}]}}}')
})

t.test('a file of no bytes has no rows, however it would be compressed; none is a Parquet file or a zip', async (t) => {
  for (const name of ['a.csv', 'a.json', 'a', 'a.jsonl.gz', 'a.csv.gz', 'a.json.zst', 'a.json.br']) t.same(await read(t, name, ''), [], name)
  for (const name of ['a.parquet', 'a.zip']) await t.rejects(read(t, name, ''), { message: 'the file is empty, so it is not a Parquet or zip file' }, name)
  t.same(await read(t, 'packed.csv.gz', zlib.gzipSync('')), [])
  t.same(await read(t, 'header.csv', 'event,time\n'), [])
})

t.test('a zip is read like a folder: hidden files are left out, and each broken one is named', async (t) => {
  const line = (a: number): Buffer => zlib.gzipSync(`{"a": ${a}}\n`)
  const file = path.join(t.testdir({}), 'export.zip')
  await writeFile(file, writeZip({
    '1/': Buffer.alloc(0), '1/a.json.gz': line(1), '__MACOSX/1/._a.json.gz': Buffer.from('junk'), '1/.DS_Store': Buffer.from('junk'), '1/README.md': Buffer.from('# Export'),
    '1/b.json.gz': Buffer.from('junk'), '../c.json.gz': line(2), 'd.json.gz': line(3).subarray(0, 12), './e.json': Buffer.from('{"a": 4}'), 'f.json.gz': Buffer.alloc(0),
    'g.parquet': Buffer.from('PAR1{"a": 5}\n'), 'h.json': Buffer.from('[{"a": 6}]\n'), 'i.json': Buffer.from('\ufeff{"a": 7}\n')
  }))
  const skipped: string[] = []
  const [found] = await listFiles([path.dirname(file)], (name) => { skipped.push(name) })
  t.same(skipped, ['export.zip/1/README.md'])
  const rows: ReadRow[] = []
  await t.rejects(async () => { for await (const some of readRows(found!)) rows.push(...some) }, {
    message: /^1\/b\.json\.gz in it: the content is not gz; [^;]*; d\.json\.gz in it: unexpected end of file; g\.parquet in it: Parquet and zip files inside a zip or compressed [^;]*; unpack it; h\.json in it: the file is a JSON array/
  })
  t.same(rows, [1, 2, 4, 7].map((a, i) => ({ position: i + 1, row: { a } })))
})

/** Files of this size, as they are after decompression: `MILLRACE_TEST_GIGABYTES=20`. */
const BYTES = Number(process.env.MILLRACE_TEST_GIGABYTES ?? 0.1) * 1e9
const HEAP_MB = 80
const BLOCK_ROWS = 20_000

const ROWS = Array.from({ length: BLOCK_ROWS }, (_, i) => ({
  uuid: `${i.toString(16).padStart(8, '0')}-cccc-4bbb-8ccc-1234567890ab`,
  event: `event ${i % 40}`,
  distinct_id: `user ${i % 1000}`,
  properties: JSON.stringify({ amount: i / 7, text: 'Straße "quoted" \n '.repeat(40), list: [1, { deep: null }] })
}))
const LINES = Buffer.from(ROWS.map((row) => `${JSON.stringify(row)}\n`).join(''))
const TABLE = Buffer.from(ROWS.map((row) => `${Object.values(row).map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',')}\n`).join(''))
const BLOCKS = Math.ceil(BYTES / LINES.length)

/** Members of gzip one after the other are one file. */
function repeat (block: Buffer): Buffer[] {
  return Array.from<Buffer>({ length: BLOCKS }).fill(zlib.gzipSync(block, { level: 1 }))
}

/** As pyarrow writes them: groups of 100,000 rows, and no index of pages. */
async function writeParquet (file: string): Promise<void> {
  const rows = Array.from({ length: 5 }, () => ROWS).flat()
  const columnData = Object.keys(ROWS[0] ?? {}).map((name) =>
    ({ name, data: rows.map((row) => row[name as keyof typeof row]), type: 'STRING' as BasicType, offsetIndex: false }))
  const writer = new ParquetWriter({
    writer: fileWriter(file), schema: schemaFromColumnData({ columnData }), codec: 'ZSTD',
    compressors: { ZSTD: (bytes) => zlib.zstdCompressSync(bytes) }
  })
  for (let block = 0; block < BLOCKS; block += 5) await writer.write({ columnData, rowGroupSize: rows.length })
  await writer.finish()
}

const WRITE: Record<string, (file: string) => Promise<void>> = {
  'lines.jsonl.gz': async (file) => await pipeline(Readable.from(repeat(LINES)), createWriteStream(file)),
  'table.csv.gz': async (file) =>
    await pipeline(Readable.from([zlib.gzipSync('uuid,event,distinct_id,properties\n'), ...repeat(TABLE)]), createWriteStream(file)),
  'groups.parquet': writeParquet,
  'export.zip': async (file) => {
    const inner = Buffer.concat(repeat(LINES))
    await pipeline(Readable.from([writeZip({ 'a.json.gz': inner })]), createWriteStream(file))
  }
}

const READ = `
  import { statSync } from 'node:fs'
  const { readRows } = await import(process.argv[1])
  const file = process.argv[2]
  let rows = 0
  let bad = 0
  let peak = 0
  for await (const some of readRows({ path: file, name: file, bytes: statSync(file).size })) {
    for (const read of some) {
      'row' in read ? rows++ : bad++
      // What the system tells as the peak is that of the process that started this one.
      if (rows % 1000 === 0) peak = Math.max(peak, process.memoryUsage.rss())
    }
  }
  console.log(JSON.stringify({ rows, bad, peakMiB: Math.round(peak / 2 ** 20) }))`

for (const [name, write] of Object.entries(WRITE)) {
  t.test(`${name}, however long: a heap of ${HEAP_MB} MB is enough`, async (t) => {
    const file = path.join(t.testdir({}), name)
    await write(file)
    const args = [`--max-old-space-size=${HEAP_MB}`, '--input-type=module', '--eval', READ, path.join(import.meta.dirname, 'read-rows.ts'), file]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(child, 'exit')
    const read = await json(child.stdout) as { rows: number, bad: number, peakMiB: number }
    await ended

    t.comment(JSON.stringify(read))
    t.equal(read.bad, 0)
    t.ok(read.rows >= BLOCKS * BLOCK_ROWS)
    t.ok(read.peakMiB < 300, `${read.peakMiB} MiB`)
  })
}
