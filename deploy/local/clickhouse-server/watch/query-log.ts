import { rmSync, writeFileSync } from 'node:fs'
import { type Logger } from 'pino'
import { buildInsertFrom } from '../sql/build-statement.ts'
import { type EngineSession } from '../engine/engine-session.ts'
import { quoteString } from '../sql/quote-sql.ts'
import { type Spool } from '../engine/spool.ts'

/** One query that has ended. */
export interface QueryRecord {
  startedAt: Date
  durationMs: number
  user: string
  query: string
  /** First word of the query. */
  kind: string
  queryId: string
  database: string
  /** As sampled while the query ran, or what it gave. */
  readRows: number
  readBytes: number
  memoryUsage: number
  writtenRows: number
  resultRows: number
  resultBytes: number
  /** 0 when the query succeeded. */
  exceptionCode: number
  exception: string
  userAgent: string
  logComment: string
}

/** As often as servers write theirs. */
const FLUSH_INTERVAL_MS = 7500
/** Rows that wait for the next flush; beyond, the newest are dropped and counted: a log must not fill memory. */
const MAX_WAITING_ROWS = 10_000
const MAX_QUERY_CHARACTERS = 16_384
/** The table may take this much disk; then its oldest days go. */
const MAX_TABLE_BYTES = 268_435_456
/** Queries of the product itself are logged only when they took longer: it polls. */
const SLOW_MS = 1000

/**
 * The server's query log, in the table `millrace_server.query_log`; the engine has none of its own.
 *
 * Logged are all queries of analysts, and those of the product that failed or were slow. Inserts of rows that succeed
 * are never logged: they are the hot path.
 */
export class QueryLog {
  #session: EngineSession
  #spool: Spool
  #logger: Logger
  #rows: string[] = []
  #dropped = 0
  #flushing: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout

  /** @param session  Used by the log alone. */
  constructor (session: EngineSession, spool: Spool, logger: Logger) {
    this.#session = session
    this.#spool = spool
    this.#logger = logger
    this.#timer = setInterval(() => { void this.flush() }, FLUSH_INTERVAL_MS)
    this.#timer.unref()
  }

  add (record: QueryRecord): void {
    if (record.user !== 'analyst' && record.exceptionCode === 0 && record.durationMs < SLOW_MS) return
    if (this.#rows.length >= MAX_WAITING_ROWS) this.#dropped++
    else this.#rows.push(JSON.stringify(toRow(record)))
  }

  /** Writes what has gathered. Never throws: a log that cannot be written is said so, and given up. */
  async flush (): Promise<void> {
    this.#flushing = this.#flushing.then(async () => await this.#write())
    await this.#flushing
  }

  async close (): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  async #write (): Promise<void> {
    const rows = this.#rows.splice(0)
    if (rows.length === 0) return
    const path = this.#spool.bodyPath(0)
    try {
      writeFileSync(path, rows.join('\n'))
      const insert = { head: 'INSERT INTO millrace_server.query_log', settings: '', format: 'JSONEachRow' }
      await this.#session.run(buildInsertFrom(insert, path, 'none'))
      await this.#dropOldest()
    } catch (err) {
      this.#dropped += rows.length
      this.#logger.error({ err }, 'query log could not be written')
    } finally {
      rmSync(path, { force: true })
    }
    if (this.#dropped > 0) this.#logger.warn({ rows: this.#dropped }, 'query log dropped rows')
    this.#dropped = 0
  }

  async #dropOldest (): Promise<void> {
    const { bytes } = await this.#session.run(OLDEST_PARTITION)
    const [total, partition] = Buffer.from(bytes).toString().trim().split('\t')
    if (Number(total) <= MAX_TABLE_BYTES || partition === undefined) return
    await this.#session.run(`ALTER TABLE millrace_server.query_log DROP PARTITION ID ${quoteString(partition)}`)
  }
}

const OLDEST_PARTITION = `SELECT sum(bytes_on_disk), min(partition_id) FROM system.parts
WHERE database = 'millrace_server' AND table = 'query_log' AND active`

function toRow (record: QueryRecord): object {
  const endedAt = new Date(record.startedAt.getTime() + record.durationMs)
  return {
    type: record.exceptionCode === 0 ? 'QueryFinish' : 'ExceptionWhileProcessing',
    event_time: Math.floor(endedAt.getTime() / 1000),
    query_start_time_microseconds: record.startedAt.toISOString().slice(0, 23).replace('T', ' '),
    query_duration_ms: Math.round(record.durationMs),
    read_rows: record.readRows,
    read_bytes: record.readBytes,
    written_rows: record.writtenRows,
    memory_usage: record.memoryUsage,
    result_rows: record.resultRows,
    result_bytes: record.resultBytes,
    current_database: record.database,
    query: record.query.slice(0, MAX_QUERY_CHARACTERS),
    query_kind: record.kind.charAt(0) + record.kind.slice(1).toLowerCase(),
    exception_code: record.exceptionCode,
    exception: record.exception,
    user: record.user,
    query_id: record.queryId,
    http_user_agent: record.userAgent,
    log_comment: record.logComment
  }
}
