import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { createTestClickHouse } from '../../../test/support/test-stores.ts'
import { queryToFile } from './parquet-file.ts'

t.test('a file is written within its memory of ClickHouse, whatever the size of events', async (t) => {
  const [{ client: clickhouse }, folder] = await Promise.all([createTestClickHouse(t), mkdtemp(path.join(tmpdir(), 'millrace-parquet-'))])
  t.teardown(async () => await rm(folder, { recursive: true }))
  for (const [count, bytes] of [[50_000, 500], [16_000, 20_000], [320, 1_000_000]] as const) {
    const properties = `concat('{"property ', toString(number % 5000), '":"', repeat(hex(number + 16), ${bytes / 2}), '"}')`
    const { rows } = await queryToFile(clickhouse, `SELECT number, ${properties} AS properties FROM numbers(${count})`, path.join(folder, 'file'), new AbortController().signal)
    t.equal(rows, count, `${bytes} bytes`)
  }
})
