import { Client } from 'pg'
import { errorCode } from '../../engines/errors.ts'
import { ServiceStartError } from '../supervisor/processes/service.ts'

/** SQLSTATE of a wrong password. */
const WRONG_PASSWORD = '28P01'

/** A server that has just started, on a machine on which everything starts, may take so long: in milliseconds. */
const CONNECT_TIMEOUT_MS = 20_000

/**
 * Creates the database that a URL names when it is missing, on an embedded Postgres.
 *
 * @throws {ServiceStartError} when the server refuses the password.
 */
export async function ensureDatabase (url: string): Promise<void> {
  const maintenance = new URL(url)
  const database = maintenance.pathname.slice(1)
  maintenance.pathname = '/postgres'
  const client = new Client({ connectionString: maintenance.href, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  try {
    await client.connect()
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [database])
    if (rowCount === 0) await client.query(`CREATE DATABASE ${client.escapeIdentifier(database)}`)
  } catch (error) {
    if (errorCode(error) !== WRONG_PASSWORD) throw error
    throw new ServiceStartError('postgres refuses the password of credentials.json in the data directory: ' +
      'restore the file with which its database was created', error)
  } finally {
    // A failed connection has nothing to end.
    await client.end().catch(() => {})
  }
}
