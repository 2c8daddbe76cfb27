import t from 'tap'
import { QUOTA_COLUMNS, QUOTAS } from '../../schema/project-quotas.ts'
import { LEDGER_TABLE, ledgerKey, toLedgerRow } from '../../schema/wire/ledger.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { createMeasureUsage } from './measure-usage.ts'

const [{ sql }, { client: clickhouse }] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
await sql`INSERT INTO projects (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'without')`
await sql`INSERT INTO project_quotas (project_id, events_per_month, events_per_second, burst, beyond, sample_rate)
  VALUES (1, 1000, NULL, NULL, 'reject', 0.1), (2, 1000, 5, 5, 'reject', 0.1)`

/** Adds a row to the books: a number of events of a minute of receipt. */
async function book (projectId: number, iso: string, accepted: number, source = 'a'): Promise<void> {
  const entry = { source, accepted, replayed: 0, duplicates: 1, deadLettered: 0 }
  await clickhouse.insert({
    table: LEDGER_TABLE, format: 'JSONEachRow', values: [toLedgerRow(ledgerKey(projectId, Date.parse(iso) / 60_000), entry)]
  })
}

async function usageOf (projectId: number): Promise<unknown> {
  const [row] = await sql`SELECT ${sql.unsafe(QUOTA_COLUMNS)} FROM ${sql.unsafe(QUOTAS)} WHERE q.project_id = ${projectId}`
  return row?.usage
}

t.test('the books of the running month, by project; late events of days that are over come later', async (t) => {
  let time = Date.parse('2026-05-20T12:00:00Z')
  const measure = createMeasureUsage({ sql, clickhouse, cluster: '', now: () => time })
  await book(1, '2026-04-30T23:59:00Z', 5000)
  await book(1, '2026-05-01T00:00:00Z', 11)
  await book(1, '2026-05-01T00:00:00Z', 101)
  await book(1, '2026-05-20T11:58:00Z', 21)
  await book(2, '2026-05-20T11:58:00Z', 401)
  await book(3, '2026-05-20T11:58:00Z', 7)

  t.same([...await measure()].sort(), [[1, 0.12], [2, 0.4]])
  t.same(await usageOf(1), { monthBegin: Date.parse('2026-05-01'), events: 120, countedThrough: time - 10_000 })
  t.match(await usageOf(2), { events: 400 })
  t.same((await sql`SELECT project_id FROM project_usage ORDER BY 1`).map(({ project_id: id }) => id), [1, 2])

  await book(1, '2026-05-10T00:00:00Z', 31)
  await book(1, '2026-05-19T00:00:00Z', 41)
  time += 15_000
  await measure()
  t.match(await usageOf(1), { events: 160 }, 'yesterday is read each time')
  time += 600_000
  await measure()
  t.match(await usageOf(1), { events: 190 }, 'and the others after ten minutes')
})

t.test('at midnight of the month it begins again', async (t) => {
  let time = Date.parse('2026-06-30T23:59:59Z')
  const measure = createMeasureUsage({ sql, clickhouse, cluster: '', now: () => time })
  await book(1, '2026-06-02T00:00:00Z', 901)
  await book(1, '2026-07-01T00:00:00Z', 3)

  await measure()
  t.match(await usageOf(1), { monthBegin: Date.parse('2026-06-01'), events: 900 })
  time += 1000
  await measure()
  t.match(await usageOf(1), { monthBegin: Date.parse('2026-07-01'), events: 2 })
})

t.test('while ClickHouse does not answer, what was measured stays', async (t) => {
  const before = await usageOf(1)
  const broken = { ...clickhouse, query: async () => { throw new Error('unavailable') } } as unknown as typeof clickhouse
  const measure = createMeasureUsage({ sql, clickhouse: broken, cluster: '', now: () => Date.parse('2026-07-02T00:00:00Z') })

  await t.rejects(measure(), { message: 'unavailable' })
  t.same(await usageOf(1), before)
})
