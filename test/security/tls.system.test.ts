import https from 'node:https'
import http from 'node:http'
import { chmod, chown, copyFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { createFirstProject } from '../../embedded/supervisor/create-first-project.ts'
import { startNatsServer } from '../../embedded/nats/start-nats-server.ts'
import { startPostgres } from '../../embedded/postgres/start-postgres.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { migrateAll } from '../../schema/migrate/migrate-all.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import type { TestContext } from '../support/test-context.ts'
import { startSecuredTiers, walkAnEvent } from './secured-tiers.ts'

/** Of an authority that exists for them alone, whose key was thrown away; for `localhost`, for a hundred years. */
const CERTIFICATES = path.join(import.meta.dirname, 'certificates')
const AUTHORITY = path.join(CERTIFICATES, 'authority.pem')
const CERTIFICATE = path.join(CERTIFICATES, 'server.pem')
const KEY = path.join(CERTIFICATES, 'server-key.pem')

async function startNatsWithTls (t: TestContext, dataDir: string): Promise<string> {
  const nats = await startNatsServer({
    dataDir, port: 0, extraConfig: `tls { cert_file: ${JSON.stringify(CERTIFICATE)}, key_file: ${JSON.stringify(KEY)} }\n`
  })
  t.teardown(async () => { await nats.stop() })
  return `tls://localhost:${nats.port}`
}

/** @returns its URL without TLS, for looking on. */
async function startPostgresWithTls (t: TestContext, dataDir: string): Promise<string> {
  const postgres = await startPostgres({ dataDir, port: 0, password: 'test', durable: false })
  t.teardown(async () => { await postgres.stop() })
  const cluster = path.join(dataDir, 'postgres', 'cluster')
  const { uid, gid } = await stat(cluster)
  for (const [from, name] of [[CERTIFICATE, 'server.crt'], [KEY, 'server.key']] as const) {
    const file = path.join(cluster, name)
    await copyFile(from, file)
    await chmod(file, 0o600)
    await chown(file, uid, gid)
  }
  const sql = connectPostgres({ url: postgres.url, max: 1 })
  await sql`ALTER SYSTEM SET ssl = on`
  await sql`SELECT pg_reload_conf()`
  await sql.end()
  return postgres.url
}

/** The embedded ClickHouse server speaks plain HTTP; a server, or a proxy before it, speaks TLS. */
async function startHttpsProxy (t: TestContext, url: string): Promise<string> {
  const { port: targetPort } = new URL(url)
  const identity = { cert: await readFile(CERTIFICATE), key: await readFile(KEY) }
  const server = https.createServer(identity, (request, response) => {
    const { method, headers, url: path } = request
    const forwarded = http.request({ host: '127.0.0.1', port: targetPort, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    forwarded.on('error', () => response.destroy())
    request.pipe(forwarded)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return changeUrl(url, { protocol: 'https:', host: `localhost:${(server.address() as AddressInfo).port}` })
}

interface Change {
  protocol?: string
  host?: string
  search?: string
}

function changeUrl (url: string, { protocol, host, search }: Change): string {
  const changed = url.replace(/^[a-z]+:/, protocol ?? '$&').replace(/@[^/]+/, host === undefined ? '$&' : `@${host}`)
  return search === undefined ? changed : `${changed}?${search}`
}

t.test('every tier reaches every store over TLS, and none whose certificate it does not trust', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-tls-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const clickhouse = await createTestClickHouse(t)
  const [natsUrl, plainUrl, clickhouseUrl] = await Promise.all([
    startNatsWithTls(t, dataDir), startPostgresWithTls(t, dataDir), startHttpsProxy(t, clickhouse.url)
  ])
  await migrateAll({ databaseUrl: plainUrl, clickhouseUrl: clickhouse.url })
  const [projectKey, personalKey] = ['phc_tls', 'phx_tls']
  await createFirstProject({ databaseUrl: plainUrl, projectApiKey: projectKey, personalApiKey: personalKey })
  const databaseUrl = changeUrl(plainUrl, { host: `localhost:${new URL(plainUrl).port}`, search: 'sslmode=verify-full' })
  const env = {
    NATS_URL: natsUrl, DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, NODE_EXTRA_CA_CERTS: AUTHORITY
  }
  const sql = connectPostgres({ url: plainUrl, max: 1 })
  t.teardown(async () => { await sql.end() })

  const tiers = await startSecuredTiers(t, { ingest: env, pipeline: env, api: env })
  await walkAnEvent({ url: tiers.url, projectKey, personalKey, clickhouse: clickhouse.client, sql })

  const [connections] = await sql`
    SELECT count(*) FILTER (WHERE ssl)::int AS encrypted, count(*) FILTER (WHERE NOT ssl)::int AS plain
    FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`
  t.ok(connections?.encrypted > 3)
  t.equal(connections?.plain, 0)

  // This process does not know the authority.
  await t.rejects(connectNats({ url: natsUrl, name: 'test', logger: pino({ level: 'silent' }) }))
  const distrusting = connectPostgres({ url: databaseUrl, max: 1 })
  await t.rejects(distrusting`SELECT 1`, { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' })
  await distrusting.end()
  const client = connectClickHouse({ url: clickhouseUrl })
  await t.rejects(client.query({ query: 'SELECT 1' }))
  await client.close()
})
