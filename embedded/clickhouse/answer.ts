import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import zlib from 'node:zlib'
import type { ErrorAnswer } from './query-errors.ts'
import { BlockCompressor, compressBlock } from './blocks/compressed-blocks.ts'
import { formatSummary, type Summary } from './query-record.ts'

/**
 * Clients decompress beside their reading, and drop what is not decompressed yet when the connection ends early:
 * between the error and that end is time for it.
 */
const READ_COMPRESSED_ERROR_MS = 1000

type Encoder = zlib.Gzip | zlib.Deflate | zlib.BrotliCompress | zlib.ZstdCompress

/**
 * Writes one answer. Headers go out as late as possible, because an error found before them gets its own status.
 */
export class Answer {
  /** Bytes of the result, before compression. */
  bytes = 0
  /** 0: the answer is not compressed, whatever the client accepts. */
  compressionLevel = 0
  /** Compress the body, an error's too, into ClickHouse's own blocks. */
  compressBlocks = false
  #compressor: BlockCompressor | undefined
  #request: IncomingMessage
  #response: ServerResponse
  #tag = randomBytes(8).toString('hex')
  #encoder: Encoder | undefined
  /** The body ends with an error, so that it gets no regular end. */
  #isCut = false

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
    if (this.compressBlocks) this.#compressor = new BlockCompressor()
    this.#begin(200)
  }

  #begin (status: number): void {
    if (this.compressionLevel > 0) this.#encoder = this.#createEncoder()
    const body = this.#response
    body.writeHead(status)
    let written = Promise.resolve()
    this.#encoder?.on('data', (chunk: Buffer) => {
      let isRoom = true
      written = new Promise((resolve) => { isRoom = body.write(chunk, () => resolve()) })
      if (!isRoom) {
        this.#encoder?.pause()
        body.once('drain', () => this.#encoder?.resume())
      }
    })
    this.#encoder?.on('end', () => {
      if (this.#isCut) void written.then(() => setTimeout(() => this.#cut(), READ_COMPRESSED_ERROR_MS))
      else body.end()
    })
  }

  /** Resolves when more can be written without filling memory. */
  async write (chunk: Uint8Array): Promise<void> {
    this.bytes += chunk.length
    if (chunk.length > 0) await this.#send(this.#compressor?.write(chunk) ?? [chunk])
  }

  async end (): Promise<void> {
    await this.#send(this.#compressor?.end() ?? [])
    this.#finish()
  }

  async #send (pieces: Uint8Array[]): Promise<void> {
    for (const piece of pieces) {
      if (this.#request.method === 'HEAD' || piece.length === 0 || this.#response.destroyed) continue
      const target = this.#encoder ?? this.#response
      if (target.write(piece)) continue
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
  }

  #finish (): void {
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
      this.setHeader('X-ClickHouse-Exception-Tag', this.#tag)
      this.#response.removeHeader('X-ClickHouse-Format')
      this.setHeader('Content-Type', 'text/plain; charset=UTF-8')
      this.#begin(error.status)
      const text = Buffer.from(error.text)
      void this.#send([this.compressBlocks ? compressBlock(text) : text])
      this.#finish()
      return
    }
    const text = error.text.trimEnd() + '\n'
    const block = `\r\n__exception__\r\n${this.#tag}\r\n${text}${Buffer.byteLength(text)} ${this.#tag}\r\n__exception__\r\n`
    const bytes = Buffer.from(block)
    // Rows may wait in the compressor still; a client that reads blocks finds the error in one, too. What the encoder
    // holds leaves before: clients look for the block in one piece.
    const compressor = this.#compressor
    const last = compressor === undefined ? bytes : Buffer.concat([...compressor.write(bytes), ...compressor.end()])
    this.#isCut = true
    if (this.#encoder === undefined) this.#response.write(last, () => this.#cut())
    else this.#encoder.flush(() => this.#encoder!.end(last))
  }

  /** Ends the connection without the regular end of a body, after all that was written. */
  #cut (): void {
    this.#response.socket?.end()
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
