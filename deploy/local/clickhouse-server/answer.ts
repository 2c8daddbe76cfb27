import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import zlib from 'node:zlib'
import type { ErrorAnswer } from './errors.ts'
import type { EngineResult } from './engine/engine.ts'
import type { QueryRecord } from './server-database.ts'

/** The counts a server gives in `X-ClickHouse-Summary`. */
export interface Summary {
  readRows: number
  readBytes: number
  writtenRows: number
  writtenBytes: number
  resultRows: number
  resultBytes: number
  elapsedSeconds: number
}

type Encoder = zlib.Gzip | zlib.Deflate | zlib.BrotliCompress | zlib.ZstdCompress

/**
 * Writes one answer. Headers go out as late as possible, because an error found before them gets its own status.
 */
export class Answer {
  /** Bytes of the result, before compression. */
  bytes = 0
  /** 0: the answer is not compressed, whatever the client accepts. */
  compressionLevel = 0
  #request: IncomingMessage
  #response: ServerResponse
  #tag = randomBytes(8).toString('hex')
  #encoder: Encoder | undefined

  constructor (request: IncomingMessage, response: ServerResponse) {
    this.#request = request
    this.#response = response
  }

  setHeader (name: string, value: string): void {
    this.#response.setHeader(name, value)
  }

  get started (): boolean {
    return this.#response.headersSent
  }

  /** Sends the headers with what is known of the query; all that follows must be `write` and `end`. */
  start (summary: Summary | undefined): void {
    if (summary !== undefined) this.setHeader('X-ClickHouse-Summary', formatSummary(summary))
    this.setHeader('X-ClickHouse-Exception-Tag', this.#tag)
    if (this.compressionLevel > 0) this.#encoder = this.#createEncoder()
    this.#response.writeHead(200)
    this.#encoder?.on('data', (chunk: Buffer) => {
      if (!this.#response.write(chunk)) {
        this.#encoder?.pause()
        this.#response.once('drain', () => this.#encoder?.resume())
      }
    })
    this.#encoder?.on('end', () => this.#response.end())
  }

  /** Resolves when more can be written without filling memory. */
  async write (chunk: Uint8Array): Promise<void> {
    this.bytes += chunk.length
    if (this.#request.method === 'HEAD' || chunk.length === 0 || this.#response.destroyed) return
    const target = this.#encoder ?? this.#response
    if (target.write(chunk)) return
    await new Promise<void>((resolve) => {
      const go = (): void => {
        target.off('drain', go)
        this.#response.off('close', go)
        resolve()
      }
      target.once('drain', go)
      this.#response.once('close', go)
    })
  }

  end (): void {
    if (this.#encoder === undefined) this.#response.end()
    else this.#encoder.end()
  }

  /**
   * Sends an error. Before the headers that is a plain error answer; after them, as servers since 25.11, a marked block
   * at the end of the data, and a connection that is closed without its regular end.
   */
  fail (error: ErrorAnswer): void {
    if (this.#response.destroyed) return
    if (!this.started) {
      this.setHeader('X-ClickHouse-Exception-Code', String(error.code))
      this.setHeader('Content-Type', 'text/plain; charset=UTF-8')
      this.#response.writeHead(error.status)
      this.#response.end(this.#request.method === 'HEAD' ? undefined : error.text)
      return
    }
    const text = error.text.trimEnd() + '\n'
    const block = `\r\n__exception__\r\n${this.#tag}\r\n${text}${Buffer.byteLength(text)} ${this.#tag}\r\n__exception__\r\n`
    const close = (): void => { this.#response.socket?.end() }
    if (this.#encoder === undefined) this.#response.write(block, close)
    else this.#encoder.end(block, () => setImmediate(close))
  }

  #createEncoder (): Encoder | undefined {
    const accepted = String(this.#request.headers['accept-encoding'] ?? '').toLowerCase()
    const level = this.compressionLevel
    const choose = (name: string): boolean => {
      const offered = new RegExp(`(^|[ ,])${name}\\s*(;\\s*q=(?!0(\\.0*)?\\s*(,|$))[^,]*)?\\s*(,|$)`).test(accepted)
      if (offered) {
        this.setHeader('Content-Encoding', name)
        this.setHeader('Vary', 'Accept-Encoding')
      }
      return offered
    }
    if (choose('zstd')) return zlib.createZstdCompress({ params: { [zlib.constants.ZSTD_c_compressionLevel]: Math.min(level, 9) } })
    if (choose('gzip')) return zlib.createGzip({ level: Math.min(level, 9) })
    if (choose('deflate')) return zlib.createDeflate({ level: Math.min(level, 9) })
    if (choose('br')) return zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: Math.min(level, 5) } })
    return undefined
  }
}

/** Counts of a query that gave rows; adds them to its record. */
export function summarizeRows (record: QueryRecord, result: EngineResult): Summary {
  const { rows, rowBytes, elapsedSeconds } = result
  const readRows = Math.max(record.readRows, rows)
  const readBytes = Math.max(record.readBytes, rowBytes)
  Object.assign(record, { readRows, readBytes, resultRows: rows })
  const written = { writtenRows: 0, writtenBytes: 0 }
  return { readRows, readBytes, ...written, resultRows: rows, resultBytes: rowBytes, elapsedSeconds }
}

/** Counts of an insert of rows; adds them to its record. */
export function summarizeInsert (record: QueryRecord, result: EngineResult): Summary {
  const { rows, rowBytes, elapsedSeconds } = result
  Object.assign(record, { readRows: rows, readBytes: rowBytes, writtenRows: rows })
  return {
    readRows: rows,
    readBytes: rowBytes,
    writtenRows: rows,
    writtenBytes: rowBytes,
    resultRows: rows,
    resultBytes: rowBytes,
    elapsedSeconds
  }
}

function formatSummary (summary: Summary): string {
  return JSON.stringify({
    read_rows: String(summary.readRows),
    read_bytes: String(summary.readBytes),
    written_rows: String(summary.writtenRows),
    written_bytes: String(summary.writtenBytes),
    total_rows_to_read: '0',
    result_rows: String(summary.resultRows),
    result_bytes: String(summary.resultBytes),
    elapsed_ns: String(Math.round(summary.elapsedSeconds * 1e9))
  })
}
