import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { startClickHouse } from '../../embedded/supervisor/start-clickhouse.ts'
import {
  createClickHouseAgent, createInsertFrames, INSERT_SETTINGS, INSERT_SETTINGS_VERSION
} from '../../pipeline/events/insert/insert-frames.ts'
import { encodePayload, makeEvents } from '../../pipeline/testing/publish-events.ts'
import { type ClickHouse, connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import type { TestContext } from '../support/test-context.ts'
import { createTestClickHouse, createTestPostgres } from '../support/test-stores.ts'
import { createEmptyDatabases } from './empty-databases.ts'
import { makeRelease, thisRelease } from './make-release.ts'

/** The next release: a column and an index more. */
const MIGRATIONS = {
  postgres: { '9000_add_plan.sql': "ALTER TABLE projects ADD COLUMN plan text NOT NULL DEFAULT 'free';\n" },
  clickhouse: {
    '9000_index_host.sql': `ALTER TABLE events {{on_cluster}} ADD INDEX IF NOT EXISTS host_index host TYPE set(100) GRANULARITY 1;
ALTER TABLE events {{on_cluster}} MATERIALIZE INDEX host_index;
`
  }
}

const freshSchema = await readFreshSchema(t)

t.test('a database with data keeps it when several processes of the next release upgrade it at once', async (t) => {
  const { sql, clickhouse, env } = await createEmptyDatabases(t)
  t.match(await thisRelease(t).migrate(env), { code: 0, output: String })
  const next = await makeRelease(t, { migrations: MIGRATIONS })
  await fill(sql, clickhouse)
  const before = await readData(sql, clickhouse)

  const runs = await Promise.all(Array.from({ length: 4 }, async () => await next.migrate(env)))

  t.same(runs.map(({ code }) => code), [0, 0, 0, 0], runs.map(({ output }) => output).join(''))
  t.equal(runs.filter(({ output }) => output === 'applied postgres/9000_add_plan, clickhouse/9000_index_host\n').length, 1)
  t.equal(runs.filter(({ output }) => output === 'nothing to migrate\n').length, 3)
  t.same(await readData(sql, clickhouse), before)
  t.same([...await sql`SELECT plan FROM projects`], [{ plan: 'free' }])
  const back = await thisRelease(t).migrate(env)
  t.not(back.code, 0)
  t.match(back.output, /run the version that made it, or a newer one/, 'there is no way back')
})

// What a run that was killed leaves, at any moment: `schema/migrate/migrate-all.test.ts`.
t.test('a database with data keeps it when every migration of ClickHouse is applied once more', async (t) => {
  const { sql, clickhouse, env } = await createEmptyDatabases(t)
  t.match(await thisRelease(t).migrate(env), { code: 0, output: String })
  await fill(sql, clickhouse)
  const before = await readData(sql, clickhouse)

  await clickhouse.command({ query: 'TRUNCATE TABLE schema_migrations' })
  t.match(await thisRelease(t).migrate(env), { code: 0, output: String })

  t.same(await readData(sql, clickhouse), before)
  t.same(await readSchema(sql, clickhouse), freshSchema)
})

async function fill (sql: Sql, clickhouse: ClickHouse): Promise<void> {
  await sql`INSERT INTO projects (id, name) VALUES (1, 'Shop')`
  await sql`INSERT INTO event_definitions (project_id, name) VALUES (1, 'order paid')`
  await sql`INSERT INTO persons (project_id, uuid, properties) VALUES (1, ${crypto.randomUUID()}, '{"plan": "pro"}')`
  await clickhouse.insert({
    table: 'events',
    values: Array.from({ length: 1000 }, (_, i) => ({
      project_id: 1, uuid: crypto.randomUUID(), event: `event ${i % 3}`, distinct_id: `user ${i % 7}`,
      timestamp: '2026-01-01 00:00:00', properties: '{"amount":42}'
    })),
    format: 'JSONEachRow'
  })
}

async function readData (sql: Sql, clickhouse: ClickHouse): Promise<unknown> {
  const [events] = await ask(clickhouse, `SELECT count() AS rows, sum(cityHash64(uuid, event, distinct_id, person_id, timestamp,
    properties)) AS hash, (SELECT sum(volume) FROM event_volumes) AS volume FROM events`)
  return {
    events,
    projects: [...await sql`SELECT id, name FROM projects`],
    definitions: [...await sql`SELECT project_id, name FROM event_definitions`],
    persons: [...await sql`SELECT uuid, properties FROM persons`]
  }
}

/** Columns of all tables and views of both databases. */
async function readSchema (sql: Sql, clickhouse: ClickHouse): Promise<unknown> {
  return {
    postgres: [...await sql`
      SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
      WHERE table_schema = 'public' ORDER BY table_name, column_name`],
    clickhouse: await ask(clickhouse, `SELECT table, name, type, default_kind, comment FROM system.columns
      WHERE database = currentDatabase() AND table NOT LIKE '.inner%' ORDER BY table, position`),
    tables: await ask(clickhouse, `SELECT name, engine, comment FROM system.tables
      WHERE database = currentDatabase() AND name NOT LIKE '.inner%' ORDER BY name`)
  }
}

async function readFreshSchema (t: TestContext): Promise<unknown> {
  const [{ sql }, { client }] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
  return await readSchema(sql, client)
}

async function ask<T> (clickhouse: ClickHouse, query: string): Promise<T[]> {
  return await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<T>()
}

t.test('views recognise after the first restart what they stored before it', async (t) => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'millrace-attach-'))
  const start = async (port: number): ReturnType<typeof startClickHouse> =>
    await startClickHouse({ dataDir, port, password: 'product', analystPassword: 'analyst' })
  let service = await start(0)
  const agent = createClickHouseAgent(service.url)
  const client = connectClickHouse({ url: service.url })
  t.teardown(async () => {
    await client.close()
    agent.destroy()
    await service.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  await migrateClickHouse(service.url, {})
  const frame = frameOf(encodePayload(makeEvents(400)), 400)
  const settings = INSERT_SETTINGS[INSERT_SETTINGS_VERSION]!
  const insert = createInsertFrames({ url: service.url, agent })

  await insert({ frames: [frame], token: 'first', settings })
  service.kill('SIGKILL')
  await service.exited
  service = await start(service.port)
  await insert({ frames: [frame], token: 'first', settings })

  const answer = await client.query({
    query: `SELECT toUInt32((SELECT count() FROM events)) AS events,
      toUInt32((SELECT sum(volume) FROM event_volumes_by_day)) AS volume,
      toUInt32((SELECT sum(count) FROM event_property_counts WHERE property = 'amount' AND kind = 'event')) AS properties`,
    format: 'JSONEachRow'
  })
  t.same(await answer.json(), [{ events: 400, volume: 400, properties: 400 }])
})
