import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { readLog, SYSTEM_LOG, type LoggedQueries } from './read-query-log.ts'

// The columns of a server's system.query_log that are read, with its types; the embedded engine has no such table.
const CREATE_LOG = `CREATE TABLE server_log (
  type Enum8('QueryStart' = 1, 'QueryFinish' = 2, 'ExceptionBeforeStart' = 3, 'ExceptionWhileProcessing' = 4),
  event_date Date DEFAULT toDate(event_time), event_time DateTime, query String,
  query_kind LowCardinality(String), is_initial_query UInt8, user LowCardinality(String), log_comment String,
  databases Array(LowCardinality(String))
) ENGINE = MergeTree ORDER BY (event_date, event_time)`

t.test("reads analysts' SELECTs from the log of a server, and nobody else's", async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const database = new URL(url).pathname.slice(1)
  await client.command({ query: CREATE_LOG })
  const [{ us }] = await (await client.query({
    query: 'SELECT currentUser() AS us', format: 'JSONEachRow'
  })).json<{ us: string }>() as [{ us: string }]
  const day = 86_400
  const now = Math.floor(Date.now() / 1000)
  const analysts = {
    type: 'QueryFinish', event_time: now, query: 'SELECT 1', query_kind: 'Select', is_initial_query: 1,
    user: 'ann', log_comment: '', databases: [database]
  }
  await client.insert({
    table: 'server_log', format: 'JSONEachRow',
    values: [
      analysts,
      { ...analysts, event_time: Math.max(now - 1, now - now % day) },
      { ...analysts, databases: ['system', `${database}_all`], query: 'x'.repeat(20_000) },
      { ...analysts, event_time: now - day },
      { ...analysts, event_time: now - 2 * day },
      { ...analysts, type: 'QueryStart' },
      { ...analysts, type: 'ExceptionWhileProcessing' },
      { ...analysts, query_kind: 'Explain' },
      { ...analysts, is_initial_query: 0 },
      { ...analysts, user: us },
      { ...analysts, user: 'millrace_api' },
      { ...analysts, log_comment: 'millrace' },
      { ...analysts, databases: ['other'] }
    ]
  })

  const found: LoggedQueries[] = []
  for await (const row of await readLog(client, { ...SYSTEM_LOG, table: 'server_log' }, { days: 2 })) found.push(row)

  const iso = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 10)
  t.same(found.sort((a, b) => a.count - b.count || (a.day < b.day ? -1 : 1)), [
    { day: iso(now - day), query: 'SELECT 1', count: 1, lastAtSeconds: now - day },
    { day: iso(now), query: 'x'.repeat(16_384), count: 1, lastAtSeconds: now },
    { day: iso(now), query: 'SELECT 1', count: 2, lastAtSeconds: now }
  ])
})
