import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { pino } from 'pino'
import t from 'tap'
import { createFirstProject } from '../../embedded/supervisor/create-first-project.ts'
import { startNatsServer } from '../../embedded/nats/start-nats-server.ts'
import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { createReadKnownNames } from '../../ingest/normalise/known-names.ts'
import { createTestClickHouse, createTestPostgres } from '../support/test-stores.ts'
import type { TestContext } from '../support/test-context.ts'
import { startSecuredTiers, walkAnEvent, watchAnEvent } from './secured-tiers.ts'

const DEPLOY = path.join(import.meta.dirname, '..', '..', 'deploy')
const TIERS = ['ingest', 'pipeline', 'api'] as const
type Tier = typeof TIERS[number]
const SECRET = 'a+secret/of:each@tier'
const silent = pino({ level: 'silent' })

/** A nats-server with the logins of `deploy/nats/permissions.conf`; answers the URL of each. */
async function startNatsWithLogins (t: TestContext): Promise<Record<Tier, string>> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-logins-'))
  const permissions = await readFile(path.join(DEPLOY, 'nats', 'permissions.conf'), 'utf8')
  const nats = await startNatsServer({
    dataDir, port: 0, extraConfig: permissions.replaceAll(/\$NATS_(\w+)_PASSWORD/g, (_, tier: string) => JSON.stringify(tier + SECRET))
  })
  t.teardown(async () => {
    await nats.stop()
    await rm(dataDir, { recursive: true, force: true })
  })
  return mapTiers((tier) => `nats://${tier}:${encodeURIComponent(tier.toUpperCase() + SECRET)}@127.0.0.1:${nats.port}`)
}

/** Logins in the roles of `deploy/postgres/roles.sql`; answers the URL of each. */
async function createLogins (t: TestContext, url: string, owner: Sql): Promise<Record<Tier, string>> {
  await owner.unsafe(await readFile(path.join(DEPLOY, 'postgres', 'roles.sql'), 'utf8'))
  const suffix = randomBytes(4).toString('hex')
  for (const tier of TIERS) await owner.unsafe(`CREATE USER ${tier}_${suffix} PASSWORD '${SECRET}' IN ROLE millrace_${tier}`)
  t.teardown(async () => {
    const admin = connectPostgres({ url: withPath(url, '/postgres'), max: 1 })
    for (const tier of TIERS) await admin.unsafe(`DROP USER ${tier}_${suffix}`)
    await admin.end()
  })
  return mapTiers((tier) => {
    const login = new URL(url)
    login.username = `${tier}_${suffix}`
    login.password = encodeURIComponent(SECRET)
    return login.href
  })
}

function mapTiers (make: (tier: Tier) => string): Record<Tier, string> {
  return { ingest: make('ingest'), pipeline: make('pipeline'), api: make('api') }
}

function withPath (url: string, pathname: string): string {
  const changed = new URL(url)
  changed.pathname = pathname
  return changed.href
}

t.test('every tier does its work with the rights of its own login', async (t) => {
  const [clickhouse, postgres, natsUrls] = await Promise.all([
    createTestClickHouse(t), createTestPostgres(t), startNatsWithLogins(t)
  ])
  const [projectKey, personalKey] = ['phc_secured', 'phx_secured']
  await createFirstProject({ databaseUrl: postgres.url, projectApiKey: projectKey, personalApiKey: personalKey })
  const databaseUrls = await createLogins(t, postgres.url, postgres.sql)
  const env = (tier: Tier): Record<'NATS_URL' | 'DATABASE_URL' | 'CLICKHOUSE_URL', string> =>
    ({ NATS_URL: natsUrls[tier], DATABASE_URL: databaseUrls[tier], CLICKHOUSE_URL: clickhouse.url })

  const tiers = await startSecuredTiers(t, { ingest: env('ingest'), pipeline: env('pipeline'), api: env('api') })
  await walkAnEvent({ url: tiers.url, projectKey, personalKey, clickhouse: clickhouse.client, sql: postgres.sql })

  await watchAnEvent({ url: tiers.url, projectKey, personalKey })

  for (const tier of TIERS) {
    const log = await readFile(tiers.logFiles[tier], 'utf8')
    t.notMatch(log, /permission denied|permissions violation|insufficient/i, `${tier} was refused nothing`)
  }
  await t.test('ingest reads which names are known, when a project has too many', async (t) => {
    const sql = connectPostgres({ url: databaseUrls.ingest, max: 1 })
    t.ok(await createReadKnownNames(sql, silent)(1))
    await sql.end()
  })
  await t.test('and with no more in Postgres', async (t) => {
    const refused: Record<Tier, string[]> = {
      ingest: ['SELECT * FROM persons', 'SELECT email FROM users', 'INSERT INTO projects (name) VALUES (1)', 'SELECT * FROM feature_flags'],
      pipeline: ['SELECT * FROM personal_api_keys', 'SELECT * FROM users', 'DELETE FROM feature_flags', 'DROP TABLE persons'],
      api: ['DROP TABLE persons', 'CREATE TABLE mine ()', 'DELETE FROM persons_progress', 'TRUNCATE event_definitions', "COPY projects TO PROGRAM 'cat'"]
    }
    for (const tier of TIERS) {
      const sql = connectPostgres({ url: databaseUrls[tier], max: 1 })
      for (const statement of refused[tier]) await t.rejects(sql.unsafe(statement), { code: '42501' }, `${tier}: ${statement}`)
      await sql.end()
    }
  })
  await t.test('and with no more in NATS', async (t) => {
    const open = async (tier: Tier): Promise<NatsConnection> => {
      const connection = await connectNats({ url: natsUrls[tier], name: 'intruder', logger: silent })
      t.teardown(async () => { await connection.close() })
      return connection
    }
    const [ingest, pipeline, api] = await Promise.all([open('ingest'), open('pipeline'), open('api')])
    t.ok(await isRefused(ingest, 'events.>'), 'ingest reads no events')
    t.ok(await isRefused(pipeline, 'persons.>'), 'nobody listens past the consumers')
    for (const connection of [ingest, pipeline, api]) {
      const manager = await jetstreamManager(connection)
      await t.rejects(manager.streams.delete('EVENTS'), 'nobody deletes a stream')
      await t.rejects(manager.streams.purge('EVENTS'), 'nobody purges events')
    }
    await t.rejects(pipeline.request('events.live.0', 'forged', { timeout: 1000 }), 'the pipeline writes no events')
    await t.rejects(connectNats({ url: natsUrls.api.replace('api:', 'api:no'), name: 'x', logger: silent }), { message: /authorization/i })
  })
})

async function isRefused (connection: NatsConnection, subject: string): Promise<boolean> {
  let isDenied = false
  connection.subscribe(subject, { callback: (error) => { isDenied ||= error !== null } })
  // A subscription that is let in stays silent: a refusal comes before the answer to the next request.
  await connection.flush()
  return isDenied
}
