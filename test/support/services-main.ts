/**
 * Holds the services that the tests of one run share. Each is started when the first test asks for it, over HTTP:
 * `GET /postgres`, `/clickhouse` and `/stack` (the whole system, on these two) answer with what reaches them, `{ url }`
 * at least, or, with 500, `{ error }`. `DELETE /stack` ends the system: at rest it costs every later test a share of a
 * core.
 *
 * Ends, with everything it started, on SIGTERM and within a second after the process it was started for is gone.
 *
 * Arguments: the file that gets the address of this process, and the pid of the process to watch.
 */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { readProcessIdentity } from '../../embedded/supervisor/processes/recorded-processes.ts'
import { startClickHouse } from '../../embedded/supervisor/start-clickhouse.ts'
import { startPostgres } from '../../embedded/postgres/start-postgres.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { migratePostgres } from '../../schema/migrate/migrate-all.ts'
import { startStack } from '../start-stack.ts'
import { storesFolder } from './stores-folder.ts'
import { TEMPLATE_BACKUP, TEMPLATE_DATABASE } from './test-stores.ts'

const [addressFile = '', watched = ''] = process.argv.slice(2)
const watchedPid = Number(watched)
const watchedIdentity = await readProcessIdentity(watchedPid)
const dataDir = await mkdtemp(path.join(storesFolder(), 'millrace-test-'))
const started: Shared[] = []
/** Of the whole system that the tests share, in both stores. */
const STACK_DATABASE = 'millrace_stack'

interface Shared {
  answer: { url: string }
  stop: () => Promise<unknown>
}

/** What can be asked for, by path. */
const starters: Record<string, () => Promise<Shared>> = {
  '/postgres': async () => {
    // Files of tests run at the same time, each with pools of its own.
    const service = await startPostgres({ dataDir, port: 0, password: 'test', durable: false, maxConnections: 300 })
    await createPostgresTemplate(service.url)
    return { answer: { url: service.url }, stop: async () => await service.stop() }
  },
  '/clickhouse': async () => {
    const service = await startClickHouse({ dataDir, port: 0, password: 'test', analystPassword: 'analyst' })
    await createClickHouseTemplate(service.url)
    return { answer: { url: service.url }, stop: async () => await service.stop() }
  },
  '/stack': async () => {
    const postgres = await urlOf('/postgres')
    const clickhouse = await urlOf('/clickhouse')
    await runInPostgres(postgres, `CREATE DATABASE ${STACK_DATABASE} TEMPLATE ${TEMPLATE_DATABASE}`)
    const analyst = Object.assign(new URL(databaseOf(clickhouse, STACK_DATABASE)), { username: 'analyst', password: 'analyst' })
    const { sql: _, clickhouse: __, supervisor: ___, select: ____, stop, ...answer } = await startStack({
      env: {
        DATABASE_URL: databaseOf(postgres, STACK_DATABASE),
        CLICKHOUSE_URL: databaseOf(clickhouse, STACK_DATABASE),
        MILLRACE_CLICKHOUSE_ANALYST_URL: analyst.href,
        MILLRACE_TARGET_ADDRESSES: '127.0.0.1'
      }
    })
    return { answer, stop }
  }
}

const asked = new Map<string, Promise<Shared>>()
const server = createServer((request, response) => {
  if (request.method === 'DELETE') {
    void end(request.url ?? '').then(() => response.end('{}'))
    return
  }
  const service = share(request.url ?? '')
  if (service === undefined) {
    response.writeHead(404).end('{}')
    return
  }
  service.then(
    ({ answer }) => { response.end(JSON.stringify(answer)) },
    (error: unknown) => { response.writeHead(500).end(JSON.stringify({ error: String(error) })) }
  )
})
server.listen(0, '127.0.0.1', () => {
  const address = { port: (server.address() as AddressInfo).port, pid: process.pid }
  // Written under another name first: anyone who sees the file sees all of it.
  void writeFile(`${addressFile}.new`, JSON.stringify(address))
    .then(() => rename(`${addressFile}.new`, addressFile))
})

const stopRequest = new AbortController()
process.once('SIGTERM', () => stopRequest.abort())
process.once('SIGINT', () => stopRequest.abort())
while (!stopRequest.signal.aborted && await readProcessIdentity(watchedPid) === watchedIdentity) {
  await delay(1000, undefined, { signal: stopRequest.signal }).catch(() => {})
}
// A service that is just starting is ended too.
await Promise.allSettled(asked.values())
for (const service of started.toReversed()) await service.stop()
await rm(dataDir, { recursive: true, force: true })
await rm(addressFile, { force: true })
process.exit(0)

/** Starts what was not asked for before; undefined when there is no such service. */
function share (name: string): Promise<Shared> | undefined {
  const known = asked.get(name)
  if (known !== undefined) return known
  const service = starters[name]?.().then((value) => { started.push(value); return value })
  if (service !== undefined) asked.set(name, service)
  return service
}

async function end (name: string): Promise<void> {
  const service = await asked.get(name)?.catch(() => undefined)
  asked.delete(name)
  if (service === undefined) return
  started.splice(started.indexOf(service), 1)
  await service.stop()
}

async function urlOf (name: string): Promise<string> {
  const service = await share(name)
  if (service === undefined) throw new Error(`there is no service ${name}`)
  return service.answer.url
}

async function createPostgresTemplate (url: string): Promise<void> {
  await runInPostgres(url, `CREATE DATABASE ${TEMPLATE_DATABASE}`)
  const client = new Client({ connectionString: templateOf(url) })
  await client.connect()
  await migratePostgres(client)
  await client.end()
}

async function createClickHouseTemplate (url: string): Promise<void> {
  await migrateClickHouse(templateOf(url), {})
  const server = connectClickHouse({ url })
  const { file, without } = TEMPLATE_BACKUP
  await server.command({ query: `BACKUP DATABASE ${TEMPLATE_DATABASE} EXCEPT TABLES ${without} TO ${file}` })
  await server.close()
}

async function runInPostgres (url: string, statement: string): Promise<void> {
  const admin = new Client({ connectionString: url })
  await admin.connect()
  await admin.query(statement)
  await admin.end()
}

function templateOf (url: string): string {
  return databaseOf(url, TEMPLATE_DATABASE)
}

function databaseOf (url: string, name: string): string {
  return Object.assign(new URL(url), { pathname: `/${name}` }).href
}
