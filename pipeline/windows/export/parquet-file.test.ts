import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { queryToFile, saveFile } from './parquet-file.ts'

const [{ client }, folder] = await Promise.all([createTestClickHouse(t), mkdtemp(path.join(tmpdir(), 'millrace-parquet-'))])
t.teardown(async () => await rm(folder, { recursive: true }))
let queries = 0
const clickhouse = new Proxy(client, {
  get (target, name) {
    if (name === 'exec') queries++
    return Reflect.get(target, name)
  }
})

t.test('a file is written within its memory of ClickHouse, whatever the size of events', async (t) => {
  for (const [count, bytes] of [[50_000, 500], [16_000, 20_000], [320, 1_000_000]] as const) {
    const properties = `concat('{"property ', toString(number % 5000), '":"', repeat(hex(number + 16), ${bytes / 2}), '"}')`
    const { rows } = await queryToFile(clickhouse, `SELECT number, ${properties} AS properties FROM numbers(${count})`, path.join(folder, 'file'), new AbortController().signal)
    t.equal(rows, count, `${bytes} bytes`)
  }
})

for (const [what, select, error] of [
  ['before the first row', 'SELECT 1 FROM missing', { code: '60', type: 'UNKNOWN_TABLE' }],
  ['behind rows', "SELECT hex(SHA256(toString(number))), throwIf(number = 300000, 'planted') FROM numbers(400000)", { code: '395', message: /planted/ }]
] as const) {
  t.test(`a query that fails ${what} is run once, and says why`, async (t) => {
    queries = 0
    await t.rejects(queryToFile(clickhouse, select, path.join(folder, 'file'), new AbortController().signal), error)
    t.equal(queries, 1)
  })
}

t.test('what ClickHouse says is read although the connection ended while the disk was behind', async (t) => {
  const chunks = [Buffer.alloc(8_000_000), '\r\n__exception__\r\nabc\r\nCode: 241. DB::Exception: limit exceeded. (MEMORY_LIMIT_EXCEEDED)\n']
  const content = new Readable({
    read () {
      // The second one comes while the first is written.
      setImmediate(() => {
        this.push(chunks.shift())
        if (chunks.length === 0) this.destroy(new Error('aborted'))
      })
    }
  })
  await t.rejects(saveFile(content, path.join(folder, 'file'), new AbortController().signal), { code: '241' })
})

t.test('of a file that has no end no more is written than it may have', async (t) => {
  const endless = new Readable({ read () { this.push(Buffer.alloc(1_048_576)) } })
  const file = path.join(folder, 'file')
  await t.rejects(saveFile(endless, file, new AbortController().signal, 5_000_000), { message: 'the file has more than 5000000 bytes' })
  t.ok((await stat(file)).size <= 5_000_000)
})

t.test('the answer of ClickHouse is not left open when there is no room for a file', async (t) => {
  const content = new Readable({ read () {} })
  await t.rejects(saveFile(content, path.join(folder, 'missing/file'), new AbortController().signal), { code: 'ENOENT' })
  t.ok(content.destroyed)
})
