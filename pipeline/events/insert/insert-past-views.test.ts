import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { parseClickHouseUrl } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { readDeadLetters } from '../../../test/support/read-letters.ts'
import { makeEvents, publishEvents } from '../../testing/publish-events.ts'
import {
  countEvents, startTestPartition, startTestStores, type TestStores, waitUntilStored
} from '../../testing/start-test-partition.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createClickHouseAgent, createInsertFrames, type InsertFrames } from './insert-frames.ts'
import { insertPastViews } from './insert-past-views.ts'
import { TABLES_OF_OUR_VIEWS } from './user-views.ts'

const WINDOW = 'SETTINGS non_replicated_deduplication_window = 1000'

/** The expression of a view that fails for the event with the amount 7, or always. */
const FAILING: Readonly<Record<string, string>> = {
  'a value that cannot be parsed': "toUInt32(JSONExtractString(properties, 'amount'))",
  'a long value that is quoted in the error': "toUInt32(concat(repeat('z', 300000), JSONExtractString(properties, 'amount')))",
  throwIf: "throwIf(JSONExtractString(properties, 'amount') = 'seven')",
  'a text that looks like an error of our own view':
    "throwIf(JSONExtractString(properties, 'amount') = 'seven', ': while pushing to view ' || currentDatabase() || '.event_volumes_by_day_view')",
  'too much memory': "length(arrayMap(x -> repeat('x', 1000000), range(if(JSONExtractString(properties, 'amount') = 'seven', 900000, 1))))",
  'too many partitions': 'arrayJoin(range(2000))'
}

const properties = (i: number): string => JSON.stringify({ amount: i === 7 ? 'seven' : String(i), plan: 'pro' })

const TARGET = `ENGINE = MergeTree ORDER BY tuple() ${WINDOW}`

/** Views that fail for a reason outside of the events, and how ClickHouse names them. */
const BROKEN: Readonly<Record<string, { statements: readonly string[], named: string }>> = {
  'without its table': {
    statements: [`CREATE TABLE mart (n String) ${TARGET}`,
      'CREATE MATERIALIZED VIEW mart_view TO mart AS SELECT event AS n FROM events', 'DROP TABLE mart SYNC'],
    named: 'mart'
  },
  'with a name in quotes, of a dictionary that is gone': {
    statements: ['CREATE TABLE colours (k UInt64, v String) ENGINE = Memory',
      "CREATE DICTIONARY dictionary (k UInt64, v String) PRIMARY KEY k SOURCE(CLICKHOUSE(TABLE 'colours')) LAYOUT(FLAT()) LIFETIME(0)",
      `CREATE MATERIALIZED VIEW \`of: colours\` ${TARGET} AS SELECT dictGet(currentDatabase() || '.dictionary', 'v', 1) AS n FROM events`,
      'DROP DICTIONARY dictionary'],
    named: '`of: colours`'
  },
  'behind another view': {
    statements: [`CREATE TABLE mart (n String) ${TARGET}`, 'CREATE MATERIALIZED VIEW mart_view TO mart AS SELECT event AS n FROM events',
      `CREATE MATERIALIZED VIEW second ${TARGET} AS SELECT throwIf(n != '') AS n FROM mart`],
    named: 'second'
  },
  'on what a view of ours fills': {
    statements: [`CREATE MATERIALIZED VIEW daily ${TARGET} AS SELECT throwIf(volume > 0) AS n FROM event_volumes_by_day`],
    named: 'daily'
  },
  'whose error does not name it': {
    statements: ["CREATE TABLE elsewhere (n String) ENGINE = URL('http://127.0.0.1:1/', 'TSV')",
      'CREATE MATERIALIZED VIEW exported TO elsewhere AS SELECT event AS n FROM events'],
    named: 'exported'
  }
}

async function publishTen ({ connection }: TestStores): Promise<void> {
  await publishEvents(connection, makeEvents(5, (i) => ({ properties: properties(i), property_types: 'eSamount\0eSplan' })))
  await publishEvents(connection, makeEvents(5, (i) => ({ properties: properties(i + 5), property_types: 'eSamount\0eSplan' })))
}

async function run (stores: TestStores, ...statements: string[]): Promise<void> {
  for (const query of statements) await stores.clickhouse.client.command({ query })
}

async function countRows ({ clickhouse }: TestStores, table: string): Promise<number> {
  const rows = await (await clickhouse.client.query({ query: `SELECT count() AS n FROM ${table}`, format: 'JSONEachRow' })).json<{ n: string }>()
  return Number(rows[0]?.n)
}

const TEN = { rows: 10, uuids: 10, volume: 10, properties: 10 }

for (const [what, expression] of Object.entries(FAILING)) {
  t.test(`stores events once, and dead-letters none, while a view of a user fails: ${what}`, async (t) => {
    const stores = await startTestStores(t)
    await run(stores,
      `CREATE TABLE mart (n String) ENGINE = MergeTree PARTITION BY n ORDER BY tuple() ${WINDOW}`,
      `CREATE MATERIALIZED VIEW mart_view TO mart AS SELECT toString(${expression}) AS n FROM events`,
      `CREATE TABLE sound (uuid UUID) ENGINE = MergeTree ORDER BY uuid ${WINDOW}`,
      'CREATE MATERIALIZED VIEW sound_view TO sound AS SELECT uuid FROM events')
    await publishTen(stores)

    await startTestPartition(t, stores)
    await waitUntilStored(stores)

    t.same(await countEvents(stores), TEN)
    t.equal(await countRows(stores, 'sound'), 10, 'a view beside it has all')
    t.same(await readDeadLetters(stores.connection), [])
  })
}

for (const [what, { statements, named }] of Object.entries(BROKEN)) {
  t.test(`stores events once, and dead-letters none, while there is a view ${what}`, async (t) => {
    const stores = await startTestStores(t)
    await run(stores, ...statements)
    const failed = new Set<string>()
    await publishTen(stores)

    await startTestPartition(t, stores, { onViewFailure: (view) => failed.add(view) })
    await waitUntilStored(stores)

    t.same(await countEvents(stores), TEN)
    t.same(await readDeadLetters(stores.connection), [])
    t.same([...failed], [`${parseClickHouseUrl(stores.clickhouse.url).database}.${named}`])
  })
}

t.test('dead-letters the row that ClickHouse refuses, and no other, while a view fails', async (t) => {
  const stores = await startTestStores(t)
  await run(stores, "ALTER TABLE events ADD CONSTRAINT healthy CHECK event != 'poison'",
    "CREATE MATERIALIZED VIEW failing ENGINE = MergeTree ORDER BY tuple() AS SELECT throwIf(distinct_id != '') AS n FROM events",
    "CREATE TABLE elsewhere (n String) ENGINE = URL('http://127.0.0.1:1/', 'TSV')",
    'CREATE MATERIALIZED VIEW exported TO elsewhere AS SELECT event AS n FROM events')
  await publishEvents(stores.connection, makeEvents(11, (i) => ({
    event: i === 4 ? 'poison' : 'order paid', distinct_id: i === 4 ? ': while pushing to view marts.v' : 'user-1'
  })))

  await startTestPartition(t, stores)
  await waitUntilStored(stores)

  t.same(await countEvents(stores), TEN)
  t.match(await readDeadLetters(stores.connection), [{ event: 'poison', reason: 'refused' }])
})

t.test('counts exactly when a view of Millrace fails while errors of views are ignored', async (t) => {
  const stores = await startTestStores(t)
  await run(stores, "CREATE MATERIALIZED VIEW failing ENGINE = MergeTree ORDER BY tuple() AS SELECT throwIf(distinct_id != '') AS n FROM events",
    ...TABLES_OF_OUR_VIEWS.map((table) => `SYSTEM STOP MERGES ${table}`))
  const { client, url } = stores.clickhouse
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  const insert = createInsertFrames({ url, agent })
  let ignored = 0
  const insertFrames: InsertFrames = async (range) => {
    const isSpoiled = range.settings.materialized_views_ignore_errors === '1' && ++ignored === 2
    if (isSpoiled) await run(stores, ...TABLES_OF_OUR_VIEWS.map((table) => `ALTER TABLE ${table} MODIFY SETTING max_parts_in_total = 1`))
    await insert(range)
    if (isSpoiled) await run(stores, ...TABLES_OF_OUR_VIEWS.map((table) => `ALTER TABLE ${table} RESET SETTING max_parts_in_total`))
  }
  await startTestPartition(t, stores, {
    store: {
      insertFrames: insertPastViews(insertFrames, { clickhouse: client, cluster: '', database: parseClickHouseUrl(url).database, onFailure: () => {} })
    }
  })

  for (let i = 0; i < 2; i++) {
    await publishEvents(stores.connection, makeEvents(5))
    await waitUntilStored(stores)
  }

  t.equal(ignored, 3, 'the spoiled insert is repeated')
  t.same(await countEvents(stores), TEN)
})

t.test('a view that refreshes beside the inserts fails none of them', async (t) => {
  const stores = await startTestStores(t)
  const target = 'REFRESH EVERY 1 SECOND ENGINE = MergeTree ORDER BY tuple() AS SELECT'
  await run(stores, `CREATE MATERIALIZED VIEW failing ${target} throwIf(distinct_id != '') AS n FROM events FINAL`,
    `CREATE MATERIALIZED VIEW daily ${target} toDate(timestamp) AS day, count() AS orders FROM events FINAL GROUP BY day`)
  const failed = new Set<string>()
  await publishTen(stores)

  await startTestPartition(t, stores, { onViewFailure: (view) => failed.add(view) })
  await waitUntilStored(stores)

  t.same(await countEvents(stores), TEN)
  await waitFor(async () => await countRows(stores, 'daily WHERE orders = 10') === 1)
  await waitFor(async () => await countRows(stores, "system.view_refreshes WHERE database = currentDatabase() AND exception != ''") === 1)
  t.same([...failed], [])
})

t.test('waits longer for each try when a view is slow, so that its insert ends, and names it', async (t) => {
  const stores = await startTestStores(t)
  await run(stores, `CREATE MATERIALIZED VIEW slow ${TARGET} AS SELECT sleep(2.5) AS n, event FROM events`)
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  const failed = new Set<string>()
  const { client, url } = stores.clickhouse
  const { database } = parseClickHouseUrl(url)
  await publishTen(stores)

  await startTestPartition(t, stores, {
    store: {
      insertFrames: insertPastViews(createInsertFrames({ url, agent, timeoutMs: 1000 }),
        { clickhouse: client, cluster: '', database, onFailure: (view) => failed.add(view) })
    }
  })
  await waitUntilStored(stores)

  t.same(await countEvents(stores), TEN)
  t.equal(await countRows(stores, 'slow'), 10)
  t.same([...failed], [`${database}.slow`])
})

t.test('knows every materialized view that migrations make', async (t) => {
  const folder = path.join(import.meta.dirname, '..', '..', '..', 'schema', 'clickhouse')
  const sql = readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8')).join('\n')
  const made = [...sql.matchAll(/^CREATE MATERIALIZED VIEW IF NOT EXISTS (\w+)/gm)].map(([, name]) => name)

  t.same(made.toSorted(), TABLES_OF_OUR_VIEWS.map((table) => `${table}_view`).toSorted())
})
