/** What "stored once" rests on and no type checks: one of these changed by the way would show under faults only. */
import fc from 'fast-check'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { INSERT_SETTINGS } from '../../pipeline/events/insert/insert-frames.ts'
import { type BatchRange, batchRangeToken, newPartitionRecord } from '../../pipeline/stream/partition-records.ts'
import { startNextLife } from '../../pipeline/stream/partition-lease.ts'
import { EVENT_CLASSES } from '../../schema/wire/streams.ts'
import { createTestClickHouse } from '../support/test-stores.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

/** Every source that runs, by its path. */
async function readSources (): Promise<[file: string, text: string][]> {
  const folders = ['api', 'cli', 'embedded/supervisor', 'ingest', 'pipeline', 'platform', 'schema']
  const files = (await Promise.all(folders.map(async (folder) =>
    (await readdir(path.join(ROOT, folder), { recursive: true })).map((file) => path.join(folder, file))))).flat()
  const sources = files.filter((file) => file.endsWith('.ts') && !/\.test\.ts$|(^|\/)testing\//.test(file))
  return await Promise.all(sources.map(async (file): Promise<[string, string]> => [file, await readFile(path.join(ROOT, file), 'utf8')]))
}

t.test('each message is acknowledged by itself, and delivered until it is', async (t) => {
  const sources = await readSources()
  const policies = sources.flatMap(([file, text]) => [...text.matchAll(/ack_policy: (\S+?),?\n/g)].map(([, policy]) => ({ file, policy })))
  const limits = sources.flatMap(([file, text]) => [...text.matchAll(/max_deliver: (\S+?),?\n/g)].map(([, limit]) => ({ file, limit })))

  t.ok(policies.length >= 2)
  t.same(policies.filter(({ policy }) => policy !== 'AckPolicy.Explicit'), [])
  t.ok(limits.length >= 1)
  t.same(limits.filter(({ limit }) => limit !== '-1'), [])
})

t.test('no insert is gathered by ClickHouse, which would answer before it is stored', async (t) => {
  const calls = (await readSources()).flatMap(([file, text]) =>
    [...text.matchAll(/\.insert\(\{\s*table|clickhouse\.exec\(\{\s*query: `INSERT/g)].map(({ index }) => ({ file, near: text.slice(Math.max(0, index - 200), index + 500) })))

  t.ok(calls.length >= 4, `${calls.length} inserts are found`)
  t.same(calls.filter(({ near }) => !near.includes('async_insert: 0')).map(({ file }) => file), [])
  for (const [version, settings] of Object.entries(INSERT_SETTINGS)) t.equal(settings.async_insert, '0', `version ${version}`)
})

t.test('targets of views have no partitions: an insert is one block of each, which its token names', async (t) => {
  const { client } = await createTestClickHouse(t)
  const rows = await (await client.query({
    query: `SELECT t.name AS name, t.partition_key AS partitionKey FROM system.tables AS t
      WHERE t.database = currentDatabase() AND t.name IN (
        SELECT extract(create_table_query, ' TO \`?\\\\w+\`?\\\\.\`?(\\\\w+)\`?') FROM system.tables
        WHERE database = currentDatabase() AND engine = 'MaterializedView')`,
    format: 'JSONEachRow'
  })).json<{ name: string, partitionKey: string }>()

  t.ok(rows.some(({ name }) => name === 'event_volumes_by_day'), 'targets are found')
  t.same(rows.filter(({ partitionKey }) => partitionKey !== ''), [])
})

t.test('a token names one batch range of one life of a stream, and nothing else', async () => {
  const rows = fc.tuple(fc.nat(), fc.nat())
  const whole = fc.record({
    first: fc.nat(), last: fc.nat(), messages: fc.constant(1), layout: fc.constant(1), settings: fc.constant(1),
    receivedBy: fc.constant<string[]>([]),
    deduplicated: fc.constant<BatchRange['deduplicated']>([]),
  })
  const pieces = fc.tuple(whole, rows).map(([piece, rows]): BatchRange => ({ ...piece, rows }))
  const range: fc.Arbitrary<BatchRange> = fc.oneof(whole, pieces)
  const place = fc.tuple(
    fc.tuple(fc.nat().map((created) => created.toString(36)), fc.nat({ max: 3 })).map(([life, lives]) => {
      let record = newPartitionRecord(life)
      for (let turn = 0; turn < lives; turn++) record = startNextLife(record, 0)
      return record.stream
    }),
    fc.record({ eventClass: fc.constantFrom(...EVENT_CLASSES), number: fc.nat() }), range)
  fc.assert(fc.property(place, place, ([streamA, partitionA, rangeA], [streamB, partitionB, rangeB]) => {
    const same = JSON.stringify([streamA, partitionA, rangeA]) === JSON.stringify([streamB, partitionB, rangeB])
    const a = batchRangeToken(partitionA, streamA, rangeA)
    const b = batchRangeToken(partitionB, streamB, rangeB)
    return same === (a === b)
  }), { seed: 42, numRuns: 5000 })
})

t.test('a stream that was made anew, as by a restore, or lost its end, has another life', async (t) => {
  const before = { ...newPartitionRecord('abc'), done: 10, range: null }
  const lives = [before.stream, startNextLife(before, 5).stream, startNextLife(startNextLife(before, 5), 3).stream]

  t.same(lives, ['abc', 'abc~1', 'abc~2'])
  t.same(startNextLife(before, 5).range, null, 'and repeats no insert of the old one')
})
