/**
 * Holds the services that the tests of one run share. Each is started when the first test asks for it, over HTTP:
 * `GET /postgres` and `GET /clickhouse` answer `{ url }` or, with 500, `{ error }`.
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
import type { Service } from '../../embedded/supervisor/processes/service.ts'
import { startClickHouse } from '../../embedded/supervisor/start-clickhouse.ts'
import { startPostgres } from '../../embedded/postgres/start-postgres.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { migratePostgres } from '../../schema/migrate/migrate-all.ts'
import { storesFolder } from './stores-folder.ts'
import { TEMPLATE_DATABASE } from './test-stores.ts'

const [addressFile = '', watched = ''] = process.argv.slice(2)
const watchedPid = Number(watched)
const watchedIdentity = await readProcessIdentity(watchedPid)
const dataDir = await mkdtemp(path.join(storesFolder(), 'millrace-test-'))
const started: Service[] = []

/** What can be asked for, by path. */
const starters: Record<string, () => Promise<Service>> = {
  '/postgres': async () => {
    // Files of tests run at the same time, each with pools of its own.
    const service = await startPostgres({ dataDir, port: 0, password: 'test', durable: false, maxConnections: 300 })
    await createPostgresTemplate(service.url)
    return service
  },
  '/clickhouse': async () => {
    const service = await startClickHouse({ dataDir, port: 0, password: 'test', analystPassword: 'analyst' })
    await migrateClickHouse(templateOf(service.url), {})
    return service
  }
}

const asked = new Map<string, Promise<Service>>()
const server = createServer((request, response) => {
  const name = request.url ?? ''
  const start = starters[name]
  if (start === undefined) {
    response.writeHead(404).end('{}')
    return
  }
  const service = asked.get(name) ?? start().then((value) => { started.push(value); return value })
  asked.set(name, service)
  service.then(
    ({ url }) => { response.end(JSON.stringify({ url })) },
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
await Promise.all(started.map((service) => service.stop()))
await rm(dataDir, { recursive: true, force: true })
await rm(addressFile, { force: true })
process.exit(0)

async function createPostgresTemplate (url: string): Promise<void> {
  const admin = new Client({ connectionString: url })
  await admin.connect()
  await admin.query(`CREATE DATABASE ${TEMPLATE_DATABASE}`)
  await admin.end()
  const client = new Client({ connectionString: templateOf(url) })
  await client.connect()
  await migratePostgres(client)
  await client.end()
}

function templateOf (url: string): string {
  const template = new URL(url)
  template.pathname = `/${TEMPLATE_DATABASE}`
  return template.href
}
