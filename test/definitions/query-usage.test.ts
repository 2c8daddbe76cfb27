import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readPromotion } from '../../platform/query-log/promoted-column.ts'
import { promoteProperty } from '../../api/definitions/promote-property.ts'
import { createTestClickHouse, createTestPostgres } from '../support/test-stores.ts'
import type { TestContext } from '../support/test-context.ts'
import { countNames, countQueryUsage, type UsageOutcome } from '../../pipeline/definitions/query-usage.ts'

interface Stores {
  sql: Awaited<ReturnType<typeof createTestPostgres>>['sql']
  clickhouse: Awaited<ReturnType<typeof createTestClickHouse>>['client']
  /** Asks as the analyst does. */
  ask: (query: string, params?: Record<string, unknown>) => Promise<void>
  /** Counts what was asked so far. */
  count: () => Promise<UsageOutcome>
  /** `query_usage_30_day` of everything that has one, by name; properties by their kind and name. */
  usage: () => Promise<Record<string, number>>
}

async function createStores (t: TestContext): Promise<Stores> {
  const [{ client: clickhouse, url }, { sql }] = await Promise.all([createTestClickHouse(t), createTestPostgres(t)])
  const analystUrl = new URL(url)
  Object.assign(analystUrl, { username: 'analyst', password: 'analyst' })
  const analyst = connectClickHouse({ url: analystUrl.href })
  t.teardown(() => analyst.close())
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one'), (2, 'two') ON CONFLICT DO NOTHING`
  await sql`INSERT INTO event_definitions (project_id, name) VALUES (1, 'order paid'), (1, 'plan'), (2, 'order paid'), (1, 'never asked for')`
  await sql`INSERT INTO property_definitions (project_id, type, group_type, name) VALUES
    (1, 'event', '', 'plan'), (1, 'event', '', '$browser'), (1, 'person', '', 'plan'), (1, 'group', 'company', 'plan')`
  return {
    sql,
    clickhouse,
    async ask (query, params = {}) {
      // Failed queries are in the log, too.
      await analyst.query({ query, query_params: params, format: 'JSONEachRow' }).then((result) => result.text()).catch(() => {})
    },
    async count () {
      await clickhouse.command({ query: 'SYSTEM FLUSH LOGS' })
      return await countQueryUsage({ clickhouse, sql }, { minPauseMs: 0 })
    },
    async usage () {
      const rows = await sql<{ name: string, usage: number }[]>`
        SELECT project_id || ' ' || name AS name, query_usage_30_day AS usage FROM event_definitions
        UNION ALL SELECT type || ' ' || name, query_usage_30_day FROM property_definitions`
      return Object.fromEntries(rows.filter(({ usage }) => usage !== 0).map(({ name, usage }) => [name, Number(usage)]))
    }
  }
}

t.test('counts each SELECT of an analyst once for every definition it names', async (t) => {
  const { ask, count, usage, clickhouse } = await createStores(t)
  await promoteProperty(clickhouse, readPromotion({ property: 'plan', type: 'String' }), { pollMs: 20 })

  await ask("SELECT count(), countIf(event = 'order paid') FROM events WHERE event = 'order paid' AND project_id = 1")
  await ask('SELECT count() FROM events_with_person WHERE event = {event:String}', { event: 'order paid' })
  await ask("SELECT JSONExtractString(properties, 'plan'), browser FROM events WHERE project_id IN (1, 2)")
  await ask("WITH 1 AS x SELECT p_plan, JSONExtractString(properties, 'plan') FROM events")
  await ask("SELECT JSONExtractString(persons.properties, 'plan') FROM events JOIN persons USING (project_id, person_id)")
  t.match(await count(), { kind: 'done', queries: 5 })

  t.same(await usage(), { '1 order paid': 2, '2 order paid': 1, 'event plan': 2, 'person plan': 1, 'event $browser': 1 })
  await count()
  await ask("SELECT 1 FROM event_volumes WHERE event = 'order paid' AND project_id = 2")
  await count()
  t.match(await usage(), { '1 order paid': 2, '2 order paid': 2 })
})

t.test('ignores failed queries, comments, other tables and our own queries', async (t) => {
  const { ask, count, usage, clickhouse } = await createStores(t)

  await ask("SELECT nonsense FROM events WHERE event = 'order paid'")
  await ask("SELECT 1 /* FROM events WHERE event = 'order paid' */")
  await ask("SELECT 'order paid'")
  await ask("SELECT 1 FROM groups WHERE group_key = 'order paid'")
  await ask("EXPLAIN SELECT 1 FROM events WHERE event = 'order paid'")
  await ask("SELECT JSONExtractString(properties, 'never asked for') FROM events")
  await clickhouse.command({ query: "SELECT sleep(1.1) FROM events_with_person WHERE event = 'order paid'" })
  await count()

  t.same(await usage(), {})
})

t.test('counts beside ordinary functions that are called like what every object has', async (t) => {
  const { ask, count, usage } = await createStores(t)

  await ask("SELECT JSONExtractString(properties, 'plan') FROM events WHERE project_id = 1 AND event IS DISTINCT FROM toString(event)")
  await ask("SELECT JSONExtractString(properties, 'plan') FROM events WHERE project_id = 1 AND event = trim(BOTH ' ' FROM toString('order paid'))")

  t.match(await count(), { kind: 'done', queries: 2, unread: { count: 0 } })
  t.same(await usage(), { '1 order paid': 1, 'event plan': 2 })
})

t.test('a query that cannot be read stops no other', async (t) => {
  async function * log () {
    for (const query of ["SELECT 1 FROM events WHERE event = 'paid'", null as unknown as string, "SELECT 2 FROM events WHERE event = 'paid'"]) {
      yield { day: '2026-01-31', query, count: 2, durationMs: 1, lastAtSeconds: 5 }
    }
  }
  const none = new Map<string, ReadonlySet<number>>()
  const vocabulary = { event: new Map([['paid', new Set([1])]]), event_property: none, person_property: none, group_property: none }

  const { rows, queries, unread } = await countNames(log(), vocabulary, new Map())
  t.match(rows, [{ projectId: 1, what: 'event', name: 'paid', queries: 4 }])
  t.match({ queries, unread }, { queries: 4, unread: { count: 2, err: Error } })
})

t.test('drops days older than 30, corrects wrong counts, keeps counts that the log has lost', async (t) => {
  const { sql, ask, count, usage } = await createStores(t)
  await sql`INSERT INTO query_usage SELECT 1, 'event', 'order paid', (now() AT TIME ZONE 'UTC')::date - days, 100
    FROM unnest(ARRAY[1, 29, 30, 31]) AS days`
  await sql`UPDATE event_definitions SET query_usage_30_day = 7 WHERE name = 'never asked for'`

  await ask("SELECT 1 FROM events WHERE event = 'order paid' AND project_id = 1")
  await count()

  t.same(await usage(), { '1 order paid': 201 })
  t.equal((await sql`SELECT FROM query_usage WHERE day < (now() AT TIME ZONE 'UTC')::date - 30`).length, 0)
})

t.test('keeps a value that a user wrote until a query names the definition after that', async (t) => {
  const { sql, ask, count, usage } = await createStores(t)
  const named = "SELECT JSONExtractString(properties, 'plan') FROM events WHERE event = 'order paid' AND project_id = 1"
  await ask(named)
  await count()
  // By a clock that stands in the next second: the log knows no shorter time.
  await sql`UPDATE event_definitions SET query_usage_30_day = 70, query_usage_written_at = now() + interval '1 second' WHERE project_id = 1`
  await sql`UPDATE property_definitions SET query_usage_30_day = 80, query_usage_written_at = now() + interval '1 second'
    WHERE type = 'event'`
  const written = { '1 order paid': 70, '1 plan': 70, '1 never asked for': 70, 'event plan': 80, 'event $browser': 80 }

  await ask(named)
  await count()
  t.same(await usage(), written, 'a query from before does not count')

  await sql`UPDATE event_definitions SET query_usage_written_at = query_usage_written_at - interval '3 seconds'`
  await sql`UPDATE property_definitions SET query_usage_written_at = query_usage_written_at - interval '3 seconds'`
  await count()
  t.same(await usage(), { ...written, '1 order paid': 2, 'event plan': 2 })
  await count()
  t.same(await usage(), { ...written, '1 order paid': 2, 'event plan': 2 })
})

t.test('counts nothing for what was deleted', async (t) => {
  const { sql, ask, count } = await createStores(t)
  await sql`UPDATE event_definitions SET deleted_at = now()`

  await ask("SELECT 1 FROM events WHERE event = 'order paid'")
  await count()

  t.same([...await sql`SELECT FROM query_usage`], [])
})

t.test('runs in one process at a time, with a pause', async (t) => {
  const { sql, clickhouse, count } = await createStores(t)
  await count()

  t.same(await countQueryUsage({ clickhouse, sql }, { minPauseMs: 60_000 }), { kind: 'skipped' })
})
