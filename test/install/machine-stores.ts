/** The stores of machine 1: Postgres as on the page, and the embedded ClickHouse server in place of a real one. */
import { appendFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { MAIN as SERVER } from 'chdb-server'
import { createPostgresLogins } from '../../cli/commands/logins.ts'
import { findPostgres } from '../../embedded/postgres/find-postgres.ts'
import { POSTGRES_UID } from '../../embedded/postgres/postgres-cluster.ts'
import { startPostgres } from '../../embedded/postgres/start-postgres.ts'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { waitFor } from '../support/wait-for.ts'
import type { Machine } from './machine.ts'

const READY_MS = 120_000

/** `<NATS api password>` becomes `5-nats-api`; logins of ClickHouse but the analyst's that of the embedded server. */
export function withPasswords (text: string): string {
  return text.replaceAll(/<([\w ]+) password>/g, (_, who: string) => passwordOf(who))
    .replaceAll(/http:\/\/(administrator|millrace_pipeline|millrace_api):[^@]*@/g, 'http://millrace:5-millrace@')
}

/** Begins with a digit, which is awkward to nats-server. */
function passwordOf (who: string): string {
  return `5-${who.toLowerCase().replaceAll(' ', '-')}`
}

/** @param hba  Lines of the page for pg_hba.conf. */
export async function startStores (machine: Machine, dataDir: string, hba: readonly string[]): Promise<void> {
  mkdirSync(dataDir, { mode: 0o755 })
  await (await startPostgres({ dataDir, port: 5432, password: passwordOf('superuser') })).stop()
  const administrator = 'host all millrace 0.0.0.0/0 scram-sha-256'
  appendFileSync(path.join(dataDir, 'postgres', 'cluster', 'pg_hba.conf'), [...hba, administrator, ''].join('\n'))
  await runStores(machine, dataDir)
}

/** Starts both on what `startStores` has made, and waits until they answer other machines. */
export async function runStores (machine: Machine, dataDir: string): Promise<void> {
  const bin = path.join(await findPostgres({ dataDir, uid: POSTGRES_UID }), 'bin')
  const asPostgres = ['setpriv', `--reuid=${POSTGRES_UID}`, `--regid=${POSTGRES_UID}`, '--clear-groups']
  const settings = [`listen_addresses=localhost,${machine.address}`, 'unix_socket_directories='].flatMap((each) => ['-c', each])
  const postgres = [path.join(bin, 'postgres'), '-D', path.join(dataDir, 'postgres', 'cluster'), ...settings]
  machine.start('postgres', [...asPostgres, ...postgres], { LC_ALL: 'C' })
  const options = { 'data-dir': dataDir, host: machine.address, port: 8123, user: 'millrace', database: 'millrace' }
  machine.start('clickhouse', [process.execPath, SERVER, ...Object.entries(options).map(([name, value]) => `--${name}=${value}`)], {
    CHDB_SERVER_PASSWORD: passwordOf('millrace'), CHDB_SERVER_ANALYST_PASSWORD: passwordOf('analyst')
  })
  await waitFor(async () => (await fetch(`http://${machine.address}:8123/ping`)).ok, { timeoutMs: READY_MS })
  await waitFor(async () => await asSuperuser(machine, async (sql) => await sql`SELECT 1`), { timeoutMs: READY_MS })
}

/** Runs the statements of the page. The embedded Postgres has made a database of this name for itself. */
export async function runSql (machine: Machine, lines: readonly string[]): Promise<void> {
  await asSuperuser(machine, async (sql) => {
    await sql.unsafe('DROP DATABASE IF EXISTS millrace')
    for (const line of lines) await sql.unsafe(withPasswords(line))
  })
}

/** `logins create` without ClickHouse, with which it begins: the embedded server makes no logins. */
export async function createLogins (machine: Machine): Promise<void> {
  const sql = connectPostgres({ url: `postgres://owner:${passwordOf('owner')}@${machine.address}:5432/millrace`, max: 1 })
  const passwords = ['INGEST', 'PIPELINE', 'API'].map((tier) => [`POSTGRES_${tier}_PASSWORD`, passwordOf(`postgres ${tier}`)])
  await createPostgresLogins(sql, Object.fromEntries(passwords) as Record<string, string>)
  await sql.end()
}

async function asSuperuser (machine: Machine, use: (sql: Sql) => Promise<unknown>): Promise<boolean> {
  const sql = connectPostgres({ url: `postgres://millrace:${passwordOf('superuser')}@${machine.address}:5432/postgres`, max: 1 })
  try {
    await use(sql)
    return true
  } finally {
    await sql.end({ timeout: 1 })
  }
}
