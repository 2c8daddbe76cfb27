import type driver from 'postgres'
import { type Logger } from '../logger.ts'
import { postgres } from './mended-postgres.ts'

/** The driver's types, from here alone: whoever imports the driver itself loads it before its mends. */
export type Sql = driver.Sql
export type TransactionSql = driver.TransactionSql
export type ISql<T extends Record<string, unknown> = {}> = driver.ISql<T>
export type PendingQuery<T extends readonly driver.MaybeRow[]> = driver.PendingQuery<T>
export type Row = driver.Row

/**
 * Opens the pool for the metadata. Connections are made on first use, so this never throws for an absent server.
 *
 * @param options.url   `postgres://user:password@host:port/database`, TLS by `?sslmode=require`.
 * @param options.max   Connections at most.
 */
export function connectPostgres (options: { url: string, max?: number, logger?: Logger }): Sql {
  return postgres(options.url, {
    max: options.max ?? 8,
    // A server that is away must be noticed well inside the 3 s after which flag clients give up.
    connect_timeout: 2,
    idle_timeout: 60,
    // Seconds before the next try; the default grows to 20, which is long after the server is back.
    backoff: (tries: number) => Math.min(2 ** tries / 10, 1),
    onnotice: (notice) => options.logger?.debug({ notice: notice.message }, 'postgres notice'),
    types: {
      // bigint counts stay far below 2^53 here, and numbers are what the answers of the API carry.
      bigint: { to: 20, from: [20], parse: Number, serialize: String }
    }
  })
}
