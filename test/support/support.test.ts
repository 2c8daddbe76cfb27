import { randomBytes } from 'node:crypto'
import { createConnection } from 'node:net'
import path from 'node:path'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Client } from 'pg'
import t from 'tap'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { runTestFiles, type TestResult } from '../test-pool.ts'
import { askForService } from './shared-services.ts'
import { createTestClickHouse, createTestPostgres } from './test-stores.ts'
import { startTestNats, type TestNats } from './test-processes.ts'
import { waitFor } from './wait-for.ts'

const EVENT = {
  project_id: 1, uuid: '0190b5a0-0000-7000-8000-000000000001', event: 'e', distinct_id: 'u',
  timestamp: '2026-01-02 03:00:00', received_at: '2026-01-02 03:00:00'
}

t.test('gives each test a migrated Postgres database of its own', async (t) => {
  const first = await createTestPostgres(t)
  const second = await createTestPostgres(t)

  await first.sql`INSERT INTO projects (name) VALUES ('only here')`
  const [row] = await second.sql`SELECT count(*)::int AS projects FROM projects`

  t.same(row, { projects: 0 })
})

t.test('gives each test a migrated ClickHouse database of its own', async (t) => {
  const { client } = await createTestClickHouse(t)

  const result = await client.query({ query: 'SELECT count() AS events FROM events', format: 'JSONEachRow' })

  t.match(await result.json(), [{ events: /^0$/ }])
})

t.test('a ClickHouse database of a test is what migrating makes', async (t) => {
  const { client } = await createTestClickHouse(t)
  const migrated = new URL(await askForService('clickhouse'))
  migrated.pathname = `/test_${randomBytes(6).toString('hex')}`
  const applied = await migrateClickHouse(migrated.href, {})
  const other = connectClickHouse({ url: migrated.href })
  t.teardown(async () => {
    await other.command({ query: `DROP DATABASE ${migrated.pathname.slice(1)}` })
    await other.close()
  })

  const tables = await describeTables(client)
  t.ok(tables.length > 10)
  t.same(tables, await describeTables(other))
  t.equal((await readRows(client, 'SELECT name FROM schema_migrations')).length, applied.length)
})

t.test('the database of a test that has ended is as new for the next, or given to nobody when it was altered', async (t) => {
  const urls: string[] = []
  const borrow = async (name: string, work: (client: ClickHouse) => Promise<unknown>): Promise<void> => {
    await t.test(name, async (t) => {
      // As of a process that ends after the database was given back.
      t.teardown(async () => {
        const late = connectClickHouse({ url: urls.at(-1) ?? '' })
        await late.insert({ table: 'events', format: 'JSONEachRow', values: [EVENT] })
        await late.close()
      })
      const { client, url } = await createTestClickHouse(t)
      urls.push(url)
      for (const table of ['events', 'event_volumes_by_day', 'watermark_reached']) {
        t.same(await readRows(client, `SELECT 1 FROM ${table}`), [], table)
      }
      // Of a token that an earlier test used.
      await client.insert({
        table: 'events', format: 'JSONEachRow', values: [EVENT], clickhouse_settings: { insert_deduplication_token: 'one' }
      })
      for (const table of ['events', 'event_volumes_by_day']) t.equal((await readRows(client, `SELECT 1 FROM ${table}`)).length, 1, table)
      await client.command({ query: "INSERT INTO watermark_reached SELECT 0, now64(3), (now64(3), '')" })
      await work(client)
    })
  }
  await borrow('fills it', async () => {})
  await borrow('alters it', async (client) => await client.command({ query: 'ALTER TABLE events ADD COLUMN plan String' }))
  await borrow('deletes', async (client) => await client.command({ query: 'ALTER TABLE events DELETE WHERE 1 SETTINGS mutations_sync = 1' }))
  await borrow('gets another', async () => {})
  t.equal(urls[0], urls[1])
  t.equal(new Set(urls).size, 3)
})

t.test('the Postgres database of a test that has ended is as new for the next, or given to nobody when it was changed', async (t) => {
  // Where a file runs by itself, the databases of its tests are lent again until this test ends.
  await createTestPostgres(t)
  const urls: string[] = []
  const borrow = async (name: string, work: (sql: Sql, url: string) => Promise<unknown>): Promise<void> => {
    await t.test(name, async (t) => {
      const { sql, url } = await createTestPostgres(t)
      urls.push(url)
      t.same(await sql`SELECT FROM record`, [])
      // Recorded, and no role may delete the record.
      t.same(await sql`INSERT INTO projects (name) VALUES ('mine') RETURNING id`, [{ id: 1 }])
      t.same((await sql`SELECT FROM record`).length, 1)
      await work(sql, url)
    })
  }
  await borrow('fills it', async () => {})
  await borrow('alters it', async (sql) => await sql`ALTER TABLE projects ADD COLUMN plan text`)
  await borrow('changes what migrations wrote', async (sql) => await sql`UPDATE fingerprint_keys SET secret = decode(md5('x'), 'hex')`)
  const left = new Set<Client>()
  t.teardown(async () => { for (const client of left) await client.end().catch(() => {}) })
  await borrow('stays connected', async (_, url) => {
    const client = new Client({ connectionString: url })
    client.on('error', () => {})
    left.add(client)
    await client.connect()
  })
  await borrow('gets another', async () => {})
  t.equal(urls[0], urls[1])
  t.equal(new Set(urls).size, 4)
})

t.test('starts a nats-server whose acknowledged messages survive a kill', async (t) => {
  const nats = await startTestNats(t)
  const before = await connect({ servers: nats.url })
  await (await jetstreamManager(before)).streams.add({ name: 'KEPT', subjects: ['kept'] })
  await jetstream(before).publish('kept', 'a message')
  await before.close()

  await nats.kill('SIGKILL')
  await nats.restart()

  const after = await connect({ servers: nats.url })
  t.teardown(() => after.close())
  const { state } = await (await jetstreamManager(after)).streams.info('KEPT')
  t.equal(state.messages, 1)
})

t.test('the nats-server of a test that has ended is as new for the next, or ended when it was changed', async (t) => {
  // Where a file runs by itself, servers are lent again until this test ends.
  await startTestNats(t)
  const ports: number[] = []
  const borrow = async (name: string, work: (nats: TestNats) => Promise<unknown>): Promise<void> => {
    await t.test(name, async (t) => {
      const nats = await startTestNats(t)
      ports.push(nats.port)
      const connection = await connect({ servers: nats.url })
      const { streams } = await jetstreamManager(connection)
      t.same(await streams.names().next(), [])
      await streams.add({ name: 'FILLED', subjects: ['filled'] })
      await connection.close()
      await work(nats)
    })
  }
  await borrow('fills it', async () => {})
  await borrow('kills it', async (nats) => await nats.kill('SIGKILL'))
  await borrow('stays connected', async ({ url }) => {
    const connection = await connect({ servers: url, reconnect: false })
    t.teardown(() => connection.close())
  })
  await borrow('gets another', async () => {})

  t.equal(ports[0], ports[1])
  t.equal(new Set(ports).size, 3)
  await t.rejects(connectOnce(ports[2] ?? 0), { code: 'ECONNREFUSED' })
})

t.test('waits for a condition, and says which one did not come true', async (t) => {
  let checks = 0

  t.equal(await waitFor(() => ++checks > 2 && 'found', { everyMs: 1 }), 'found')
  await t.rejects(waitFor(() => checks < 0, { timeoutMs: 10 }), /checks < 0/)
})

async function readRows (client: ClickHouse, query: string): Promise<unknown[]> {
  return await (await client.query({ query, format: 'JSONEachRow' })).json()
}

async function describeTables (client: ClickHouse): Promise<unknown[]> {
  return await readRows(client, `SELECT replaceAll(create_table_query, currentDatabase(), 'db') AS text
    FROM system.tables WHERE database = currentDatabase() ORDER BY name`)
}

async function connectOnce (port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const socket = createConnection({ port, host: '127.0.0.1' }, () => { socket.destroy(); resolve() })
    socket.once('error', reject)
  })
}

t.test('an error that nobody caught fails its file, and the next file has another process', async (t) => {
  const folder = t.testdir({
    'throws.test.ts': "import t from 'tap'\nt.test('later', async (t) => {\n  setTimeout(() => { throw new Error('too late') })\n  await new Promise((resolve) => setTimeout(resolve, 60_000))\n})\n",
    'rejects.test.ts': "import t from 'tap'\nt.test('rejects', async (t) => {\n  void Promise.reject(new Error('not awaited'))\n  await new Promise((resolve) => setTimeout(resolve, 60_000))\n})\n",
    'sound.test.ts': "import t from 'tap'\nt.test('passes', async (t) => { t.pass() })\n"
  })
  const files = ['throws', 'rejects', 'sound'].map((name) => ({
    file: path.relative(path.join(import.meta.dirname, '..', '..'), path.join(folder, `${name}.test.ts`)), group: 'unit', env: process.env
  }))
  const results: TestResult[] = []
  await runTestFiles(files, { jobs: 1, mostJobs: 1, results: path.join(folder, 'results'), onResult: (result) => results.push(result) })

  t.same(results.map(({ isPassed }) => isPassed), [false, false, true])
  t.match(results.map(({ output }) => output), [/not ok - nobody caught: Error: too late/, /not ok - nobody caught: Error: not awaited/, /ok/])
})
