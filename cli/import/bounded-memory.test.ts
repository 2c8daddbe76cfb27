/**
 * Memory does not grow with a file: each kind is read by a process whose heap has room for a small part of it.
 * `MILLRACE_TEST_GIGABYTES=20` reads files of that size, as they are after decompression.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import zlib from 'node:zlib'
import { type BasicType, fileWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer'
import t from 'tap'
import { writeZip } from '../../test/support/write-zip.ts'

const BYTES = Number(process.env.MILLRACE_TEST_GIGABYTES ?? 0.3) * 1e9
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
  for await (const read of readRows({ path: file, name: file, bytes: statSync(file).size })) {
    'row' in read ? rows++ : bad++
    // What the system tells as the peak is that of the process that started this one.
    if (rows % 1000 === 0) peak = Math.max(peak, process.memoryUsage.rss())
  }
  console.log(JSON.stringify({ rows, bad, peakMiB: Math.round(peak / 2 ** 20) }))`

for (const [name, write] of Object.entries(WRITE)) {
  t.test(`${name}: a heap of ${HEAP_MB} MB is enough`, async (t) => {
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
