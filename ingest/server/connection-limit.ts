import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import type { Logger } from '../../platform/logger.ts'
import type { Metrics } from '../../platform/metrics.ts'

/**
 * Files that stay for everything but clients: 64 connections to the API, those to NATS and Postgres, spool, threads,
 * files of the SDK.
 */
const FILES_OF_OTHERS = 160

/** A process that may open next to no files still answers. */
const LEAST_CONNECTIONS = 16

export interface ConnectionLimitOptions {
  /** `MILLRACE_MAX_CONNECTIONS`. */
  maxConnections: number
  metrics: Metrics
  logger: Logger
  /** How many files this process may open; default: asked of the kernel. */
  openFiles?: number
}

/**
 * Limits the open connections of ingest to the setting, or to fewer when this process may not open that many files:
 * otherwise the kernel's limit closes connections unseen, and takes files from the spool. A connection beyond is closed
 * at once, counted, and a reason for a warning.
 */
export function limitConnections (server: Server, options: ConnectionLimitOptions): void {
  const { maxConnections, metrics, logger, openFiles = readOpenFilesLimit() } = options
  const limit = Math.min(maxConnections, Math.max(LEAST_CONNECTIONS, openFiles - FILES_OF_OTHERS))
  if (limit < maxConnections) {
    logger.warn({ limit, maxConnections, openFiles }, 'this process may not open enough files for MILLRACE_MAX_CONNECTIONS, and takes ' +
      'fewer connections: raise the limit (ulimit -n, LimitNOFILE of the unit), or lower the setting')
  }
  let refused = 0
  server.maxConnections = limit
  server.on('drop', () => {
    refused++
    // The log makes one line of those that come again and again.
    logger.warn({ limit }, 'closed a connection, because as many as allowed are open: clients see a reset, and SDKs try again')
  })
  metrics.counterFrom('refused_connections_total', 'Connections closed because as many as allowed were open.', () => refused)
}

/** Linux only; elsewhere the setting alone counts. */
function readOpenFilesLimit (): number {
  try {
    const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return Number(soft) || Infinity
  } catch {
    return Infinity
  }
}
